# frozen_string_literal: true

# How the judges of this folder say what is wrong.
module Strict
  # Something in what arrived is not as it must be.
  class Violation < StandardError; end

  module_function

  def check(condition, message)
    raise Violation, message unless condition
  end

  def same(what, expected, actual)
    check(expected == actual, "#{what}: expected #{expected.inspect[0, 600]}, got #{actual.inspect[0, 600]}")
  end

  def match(what, pattern, text)
    check(text.is_a?(String) && pattern.match?(text), "#{what}: #{text.inspect[0, 300]} does not match #{pattern.inspect}")
  end
end
