# Loaded by stack scenarios: code outside of any method.
probe = Thread.current[:stack_scenario_probe]

probe.call

[probe].each do |it|
  it.call
end

def method_of_the_top_level(it)
  it.call
end
method_of_the_top_level(probe)
