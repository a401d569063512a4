# Joins what gcov says of every object below an execution root, for the sources in one folder of the tree.
#   ruby coverage_report.rb EXECROOT FOLDER
require "json"
require "open3"

execroot, folder = ARGV
lines = Hash.new { |files, name| files[name] = Hash.new(0) } # source => line => count

# A test leaves its counts in its own working folder, by the path of the object; the notes lie beside the object.
Dir.glob("#{execroot}/bazel-out/*/bin/**/*.gcda").each do |counts|
  notes = counts.sub(/gcda\z/, "gcno")
  beside_object = "#{execroot}/bazel-out/#{notes.split("/bazel-out/").last}"
  File.symlink(beside_object, notes) if !File.exist?(notes) && File.exist?(beside_object)
  out, status = Open3.capture2("gcov", "--json-format", "--stdout", counts, chdir: execroot, err: File::NULL)
  next unless status.success?
  out.each_line do |document|
    JSON.parse(document)["files"].each do |file|
      name = file["file"]
      next unless name.start_with?("#{folder}/") && name.match?(/\.[ch]$/)
      next if name.start_with?("#{folder}/include/") # declarations only
      file["lines"].each { |line| lines[name][line["line_number"]] += line["count"] }
    end
  end
end
abort "no coverage data below #{execroot}" if lines.empty?

puts format("%-36s %7s %7s %7s", "file", "lines", "reached", "")
all = reached = 0
lines.sort.each do |name, counts|
  hit = counts.count { |_, count| count.positive? }
  all += counts.size
  reached += hit
  puts format("%-36s %7d %7d %6.1f%%", name, counts.size, hit, 100.0 * hit / counts.size)
end
puts format("%-36s %7d %7d %6.1f%%", "all", all, reached, 100.0 * reached / all)

puts "\nNot reached:"
lines.sort.each do |name, counts|
  source = File.exist?(name) ? File.readlines(name, chomp: true) : []
  counts.sort.each { |number, count| puts format("%s:%d: %s", name, number, source[number - 1].to_s.strip) if count.zero? }
end
