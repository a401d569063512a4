#ifndef NF_TEMPLATE_NAME_H
#define NF_TEMPLATE_NAME_H

#include <stddef.h>

// ActionView compiles each template into a method whose name ends in two numbers that differ in every process
// (`_app_views_x_html_erb___1234_5678` of app/views/x.html.erb), which would keep equal code apart in
// profiles. Returns the length of the name without these numbers, or `length` when it is not such a method:
// the rest of the name must be the end of the file's path as ActionView writes it. Tilt's methods
// (`__tilt_1234` of any file but Ruby's) lose their number, too.
size_t nf_template_name_length(const char *name, size_t length, const char *file, size_t file_length);

#endif
