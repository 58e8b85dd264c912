import Platform
import Transports

/// Runs one benchmark, from the first connection to the result.
public struct BenchRunner {
    private let workload: Workload
    private let maker: ChannelMaker
    private let progress: ProgressLine

    /// Resolves the host and reads the files; throws what is wrong with the options.
    ///
    /// - Parameters:
    ///   - options: what the command line says.
    ///   - isQuiet: shows no progress, not even on a terminal.
    public init(_ options: BenchOptions, isQuiet: Bool) throws(BenchError) {
        workload = try Workload(options)
        progress = ProgressLine(isQuiet: isQuiet)
        if let process = options.process, ProcessUsage.read(process: process) == nil {
            throw .options("There is no process \(process).")
        }
        maker = try ChannelMaker(options)
        ResourceLimits.raiseFileDescriptors()
    }

    /// Measures. Takes the warm-up's and the run's seconds, and what connecting takes.
    public func run() throws(BenchError) -> BenchResult {
        var result = try runScenario()
        maker.describe(&result)
        return result
    }

    private func runScenario() throws(BenchError) -> BenchResult {
        switch workload.options.scenario {
        case .fanout, .pair, .fanin, .wild, .topics, .shared, .publish, .away, .latency:
            try StreamRun(workload: workload, maker: maker, progress: progress).run()
        case .conns: try ConnectionRun(workload: workload, maker: maker, progress: progress).run()
        case .retained: try RetainedRun(workload: workload, maker: maker, progress: progress).run()
        case .flood: try FloodRun(workload: workload, maker: maker, progress: progress).run()
        case .churn: try ChurnRun(workload: workload, maker: maker, progress: progress).run()
        }
    }
}
