# A day in a small shop: reads its orders, sorts them, writes a page with the largest ones of each customer,
# packs the pages.
#
# Each step measures the CPU time that it takes by itself, so that a profile of this program can be checked
# against it: the last line names the hot method and its true share.

# Of this thread: what a profiler's threads take belongs to no step.
def cpu_seconds
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
end

def process_cpu_seconds
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
end

# What Ruby took to start is in no profile either.
first_line = process_cpu_seconds

require "erb"
require "zlib"

Order = Struct.new(:id, :customer, :item, :quantity, :cents)

ITEMS = %w[anvil bellows chisel drill emery file gouge hammer iron jig].freeze
PAGE = ERB.new(<<~HTML, trim_mode: "-")
  <h1>Largest orders of <%= ERB::Util.html_escape(customer) %></h1>
  <table>
  <%- orders.each do |order| -%>
    <tr><td><%= order.id %></td><td><%= order.item %></td><td><%= order.quantity %></td>
        <td><%= format("%.2f", order.cents / 100.0) %></td></tr>
  <%- end -%>
  </table>
HTML

# The rows of a file as another system would have written it.
def make_file(rows)
  random = Random.new(42)
  Array.new(rows) do |id|
    %(#{id},"Customer #{random.rand(200)}",#{ITEMS.sample(random: random)},#{random.rand(1..9)},#{random.rand(100..99_999)})
  end.join("\n")
end

# One character at a time, as a first version of a parser often is: the hot method of this program.
def split_line(line)
  fields = []
  field = +""
  quoted = false
  line.each_char do |char|
    case char
    when '"' then quoted = !quoted
    when "," then quoted ? field << char : (fields << field; field = +"")
    else field << char
    end
  end
  fields << field
end

def parse_orders(text)
  text.each_line(chomp: true).map do |line|
    id, customer, item, quantity, cents = split_line(line)
    Order.new(id.to_i, customer, item, quantity.to_i, cents.to_i)
  end
end

def sort_orders(orders)
  orders.sort_by { |order| [order.customer, -order.cents, order.id] }
end

def render_pages(orders)
  orders.group_by(&:customer).map { |customer, its| PAGE.result_with_hash(customer: customer, orders: its.first(6)) }
end

def pack_pages(pages)
  pages.map { |page| Zlib.gzip(page, level: 9) }
end

seconds_of = Hash.new(0.0)
step = lambda do |name, &work|
  start = cpu_seconds
  result = work.call
  seconds_of[name] += cpu_seconds - start
  result
end

file = make_file(3_000)
until seconds_of.values.sum > Float(ENV.fetch("SECONDS_OF_WORK", "5"))
  orders = step.call("parse_orders") { parse_orders(file) }
  sorted = step.call("sort_orders") { sort_orders(orders) }
  pages = step.call("render_pages") { render_pages(sorted) }
  packed = step.call("pack_pages") { pack_pages(pages) }
end

puts "#{orders.size} orders on #{pages.size} pages, #{packed.sum(&:bytesize)} bytes packed"
total = process_cpu_seconds - first_line
seconds_of.each { |name, seconds| puts format("%-14s %5.1f %% of the CPU time", name, 100 * seconds / total) }
hot, seconds = seconds_of.max_by(&:last)
puts format("hot method: %s %.1f", hot, 100 * seconds / total)
