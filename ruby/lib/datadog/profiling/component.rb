# frozen_string_literal: true

require_relative "collectors/code_provenance"
require_relative "collectors/info"
require_relative "exporter"
require_relative "ext/dir_interruption"
require_relative "no_signals"
require_relative "output"
require_relative "profiler"
require_relative "ruby_rules"
require_relative "scheduler"
require_relative "tasks/setup"

module Datadog
  module Profiling
    # Turns settings into a profiler.
    module Component
      # What is on, after the rules for this Ruby.
      Switches = Struct.new(:gc, :allocation, :heap, :heap_size, :heap_sample_every, :timeline, :no_signals)

      class << self
        # [a Profiler or nil, { profiling_enabled: whether there is one }]. Raises ArgumentError for settings
        # that cannot be.
        def build_profiler_component(settings:, optional_tracer: nil)
          profiler = build(settings, optional_tracer) if settings.profiling.enabled
          [profiler, { profiling_enabled: !profiler.nil? }]
        end

        private

        def build(settings, tracer)
          reason = Profiling.unsupported_reason
          if reason
            Log.warn("Profiling is enabled, but #{reason}")
            return
          end
          Profiling.load_profiling
          Tasks::Setup.run
          advanced = settings.profiling.advanced
          switches = switches_for(settings)
          plan = Output.plan(settings)
          recorder = recorder_for(switches)
          worker = worker_for(switches, advanced, thread_context(recorder, switches, advanced, tracer))
          exporter = exporter_for(settings, switches, plan, recorder, worker)
          scheduler = Scheduler.new(
            exporter: exporter, transport: plan.transport, interval: advanced.upload_period_seconds
          )
          Profiler.new(
            worker: worker, scheduler: scheduler, exporter: exporter, local_output: plan.local,
            on_start: dir_workaround(switches, advanced)
          )
        end

        # --- what is on ---

        def switches_for(settings)
          advanced = settings.profiling.advanced
          allocation = allocation?(settings.profiling)
          heap = heap?(advanced, allocation)
          no_signals = NoSignals.enabled?(
            advanced.no_signals_workaround_enabled, skip_mysql2_check: advanced.skip_mysql2_check
          )
          Switches.new(
            gc?(advanced), allocation, heap, heap && advanced.experimental_heap_size_enabled,
            advanced.experimental_heap_sample_rate, advanced.timeline_enabled, no_signals
          )
        end

        def gc?(advanced)
          return false unless advanced.gc_enabled || advanced.force_enable_gc_profiling

          note_ractors("GC profiling")
          true
        end

        def allocation?(profiling)
          return false unless profiling.allocation_enabled

          reason = RubyRules.allocation_refused
          if reason
            Log.warn("Allocation profiling stays off: #{reason}")
            return false
          end
          note_ractors("Allocation profiling")
          true
        end

        def heap?(advanced, allocation)
          return false unless advanced.experimental_heap_enabled

          reason = RubyRules.heap_refused
          reason ||= "it needs allocation profiling (c.profiling.allocation_enabled)" unless allocation
          return true unless reason

          Log.error("Heap profiling stays off: #{reason}")
          false
        end

        def note_ractors(what)
          if !RubyRules.ractors_survive_tracepoints?
            Log.debug("#{what} is on, until the program makes its first Ractor: Ruby #{RUBY_VERSION} would crash " \
                      "(https://bugs.ruby-lang.org/issues/18464)")
          elsif RubyRules.ractors_end_tracepoints?
            Log.debug("#{what} ends when a Ractor is garbage-collected (https://bugs.ruby-lang.org/issues/19112)")
          end
        end

        # --- the parts ---

        def recorder_for(switches)
          StackRecorder.new(
            cpu_time_enabled: NativeExtension._native_cpu_time?, alloc_samples_enabled: switches.allocation,
            heap_samples_enabled: switches.heap, heap_size_enabled: switches.heap_size,
            heap_sample_every: switches.heap_sample_every, timeline_enabled: switches.timeline
          )
        end

        def thread_context(recorder, switches, advanced, tracer)
          Collectors::ThreadContext.new(
            recorder: recorder, max_frames: advanced.max_frames, tracer: tracer,
            endpoint_collection_enabled: advanced.endpoint.collection.enabled,
            timeline_enabled: switches.timeline, gvl_enabled: advanced.gvl_enabled,
            otel_context_enabled: advanced.preview_otel_context_enabled,
            native_filenames_enabled: advanced.native_filenames_enabled
          )
        end

        def worker_for(switches, advanced, thread_context)
          Collectors::CpuAndWallTimeWorker.new(
            gc_profiling_enabled: switches.gc,
            no_signals_workaround_enabled: switches.no_signals,
            thread_context_collector: thread_context,
            dynamic_sampling_rate_overhead_target_percentage: advanced.overhead_target_percentage,
            allocation_profiling_enabled: switches.allocation,
            interval: advanced.cpu_sampling_interval_ms / 1000.0
          )
        end

        def exporter_for(settings, switches, plan, recorder, worker)
          Exporter.new(
            settings: settings, pprof_recorder: recorder, worker: worker,
            info_collector: Collectors::Info.new(settings),
            code_provenance_collector: code_provenance(settings.profiling.advanced),
            internal_metadata: {
              no_signals_workaround_enabled: switches.no_signals, timeline_enabled: switches.timeline,
              heap_sample_every: switches.heap_sample_every
            },
            codec: plan.codec,
            # Short programs shall leave a file too; servers want no trifles.
            minimum_duration_seconds: plan.local ? 0 : Exporter::MINIMUM_DURATION_SECONDS
          )
        end

        def code_provenance(advanced)
          Collectors::CodeProvenance.new if advanced.code_provenance_enabled
        end

        def dir_workaround(switches, advanced)
          wanted = advanced.dir_interruption_workaround_enabled && !switches.no_signals
          return unless wanted && RubyRules.dir_interruptible?

          -> { Ext::DirInterruption.apply! }
        end
      end
    end
  end
end
