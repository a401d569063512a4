// What is inside a ddog_prof_ProfiledEndpointsStats. The interface has no way to look into one but to send
// it, so a report is sent to a socket of our own.
#pragma once

#include <string>

#include "tests/conformance/library.h"

namespace conformance {

// The JSON text of the event's endpoint_counts; "" if the library cannot send.
std::string EndpointCounts(const Library &library, const ddog_prof_ProfiledEndpointsStats *stats);

} // namespace conformance
