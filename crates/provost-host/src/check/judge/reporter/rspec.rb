# Reports the runs of RSpec in a check to the harness, and changes their examples where it is told to.
#
# Ruby loads this file first in every process of a check, because RUBYOPT requires it. It adds nothing until
# RSpec is loaded. PROVOST_REPORT names the pipe that reports go to; PROVOST_CONTROL is `fail` or `pass` in a
# control run, in which every example does just that. PROVOST_TESTS is `all` if every example has to be run,
# also after a failed one.

module ProvostReporter
  PIPE = ENV["PROVOST_REPORT"]
  CONTROL = ENV["PROVOST_CONTROL"].to_s
  ALL = ENV["PROVOST_TESTS"] == "all" || !CONTROL.empty?
  # An example may run a runner of its own: only the outermost run is the contract's.
  INSIDE = "PROVOST_INSIDE"
  NAMES = 5

  def self.line(*fields)
    text = fields.map { |field| field.to_s.b.tr("\n\x1f".b, "  ") }.join("\x1f".b)
    text.byteslice(0, 3999) + "\n".b
  end

  def self.write(lines)
    File.open(PIPE, File::WRONLY | File::NONBLOCK) do |pipe|
      pipe.sync = true
      # A write of at most 4096 bytes is not mixed with those of others.
      chunk = "".b
      lines.each do |line|
        if chunk.bytesize + line.bytesize > 4096
          pipe.write(chunk)
          chunk = "".b
        end
        chunk << line
      end
      pipe.write(chunk)
    end
  rescue SystemCallError
    nil
  end

  # One run of RSpec.
  class Session
    attr_reader :unmoved

    def initialize
      require "securerandom"
      @number = SecureRandom.hex(6)
      @process = Process.pid
      @results = []
      @unmoved = []
    end

    def start
      ENV[INSIDE] = @number
      ProvostReporter.write([ProvostReporter.line("start", "rspec", @number, Dir.pwd, *ARGV)])
    end

    def test(result, name)
      @results << [result, name] if Process.pid == @process
    end

    def end
      return unless Process.pid == @process
      ENV.delete(INSIDE) if ENV[INSIDE] == @number
      count = ->(wanted) { @results.count { |result, _| result == wanted } }
      lines = @results.map { |result, name| ProvostReporter.line("test", "rspec", @number, result, name) }
      lines << ProvostReporter.line("list", "rspec", @number, @results.size)
      lines << ProvostReporter.line("end", "rspec", @number, count["passed"], count["failed"], 0)
      @unmoved.first(NAMES).each { |name| lines << ProvostReporter.line("unmoved", "rspec", @number, name[0, 300]) }
      ProvostReporter.write(lines)
    end
  end

  class << self
    attr_accessor :session

    # The name of an example, by its file and its titles. Ruby makes up a title for an example without one,
    # from its result or its line; its place among those of its group is steadier.
    def name_of(example)
      groups = example.example_group.parent_groups.reverse
      own = example.metadata[:description_args].to_a.map(&:to_s).join(" ")
      if own.empty?
        untitled = example.example_group.examples.select { |each| each.metadata[:description_args].to_a.empty? }
        own = "example #{untitled.index { |each| each.equal?(example) }.to_i + 1}"
      end
      file = groups.first.metadata[:file_path].to_s.sub(%r{\A\./}, "")
      [file, *groups.map(&:description), own].reject(&:empty?).join(" > ")
    end

    def note(result, example)
      return unless session
      # `--dry-run` tells of passed examples that it did not run.
      result = "skipped" if RSpec.configuration.dry_run?
      name = name_of(example)
      session.unmoved << name if result == "passed" && CONTROL == "fail"
      session.test(result, name)
    end

    def watch
      RSpec::Core::Runner.prepend(Runner)
      RSpec::Core::Reporter.prepend(Reporter)
      RSpec::Core::Example.prepend(Example)
    end
  end

  # Waits until RSpec is loaded. Bundler replaces the method of Kernel, so this one stands before it.
  module Loading
    private

    def require(name)
      loaded = super
      is_core = loaded && name.to_s.end_with?("rspec/core", "rspec/core.rb")
      ProvostReporter.watch if is_core && defined?(::RSpec::Core::Runner)
      loaded
    end
  end

  # Begins and ends the report with the run.
  module Runner
    def run(*)
      return super if ENV[INSIDE]
      session = Session.new
      session.start
      ProvostReporter.session = session
      code = super
      ProvostReporter.session = nil
      session.end
      code
    end

    def run_specs(*)
      @configuration.backtrace_exclusion_patterns << /\A#{Regexp.escape(__FILE__)}:/
      @configuration.force(fail_fast: false) if ALL
      super
    end
  end

  # Notes each result.
  module Reporter
    def example_passed(example)
      ProvostReporter.note("passed", example)
      super
    end

    def example_failed(example)
      ProvostReporter.note("failed", example)
      super
    end

    def example_pending(example)
      ProvostReporter.note("skipped", example)
      super
    end

    # A file that cannot be loaded, or a hook of the whole run that failed.
    def notify_non_example_exception(exception, context)
      ProvostReporter.session&.test("failed", "(#{context.to_s.strip})")
      super
    end
  end

  # Replaces what an example does.
  module Example
    def run(*)
      unless CONTROL.empty?
        @example_block = proc { raise "planted: the harness made this example fail" if CONTROL == "fail" }
      end
      super
    end
  end
end

Object.prepend(ProvostReporter::Loading) if ProvostReporter::PIPE
