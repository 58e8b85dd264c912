import Platform
import Transports

/// Runs one benchmark, from the first connection to the result.
public struct BenchRunner {
    private let workload: Workload
    private let options: BenchOptions
    private let maker: ChannelMaker
    private let view: LiveView
    private let programVersion: String

    /// Resolves the host and reads the files; throws what is wrong with the options.
    ///
    /// - Parameters:
    ///   - options: what the command line says.
    ///   - programVersion: of the program that measures, for the report.
    ///   - isQuiet: shows nothing while it runs, not even on a terminal.
    public init(_ options: BenchOptions, programVersion: String, isQuiet: Bool) throws(BenchError) {
        self.options = options
        self.programVersion = programVersion
        workload = try Workload(options)
        view = LiveView(LiveView.form(isQuiet: isQuiet), seconds: options.seconds)
        if let process = options.process, ProcessUsage.read(process: process) == nil {
            throw .options("There is no process \(process).")
        }
        maker = try ChannelMaker(options)
        ResourceLimits.raiseFileDescriptors()
    }

    /// Measures. Takes the warm-up's and the run's seconds, and what connecting takes.
    public func run() throws(BenchError) -> BenchReport {
        let started = WallTime.now()
        // With layers of its own, whose handshake is none of the load's.
        let contact = try FirstContact(options, ChannelMaker(options))
        let facts = RunFacts(
            options: options, workload: workload, programVersion: programVersion, started: started, brokerVersion: contact.version,
            brokerProcess: options.process.flatMap { ProcessUsage.name(process: $0) }, machine: Machine.read())
        view.title = "\(options.scenario.rawValue) → \(facts.broker)"
        let monitor = RunMonitor(workload, view: view)
        var maker = maker
        maker.choose(contact.address)
        defer { monitor.clear() }
        var result = try runScenario(maker, monitor)
        maker.describe(&result)
        return BenchReport(result: result, facts: facts, series: monitor.points, distributions: monitor.distributions)
    }

    private func runScenario(_ maker: ChannelMaker, _ monitor: RunMonitor) throws(BenchError) -> BenchResult {
        switch options.scenario {
        case .fanout, .pair, .fanin, .wild, .topics, .shared, .publish, .away, .latency:
            try StreamRun(workload: workload, maker: maker, monitor: monitor).run()
        case .conns: try ConnectionRun(workload: workload, maker: maker, monitor: monitor).run()
        case .retained: try RetainedRun(workload: workload, maker: maker, monitor: monitor).run()
        case .flood: try FloodRun(workload: workload, maker: maker, monitor: monitor).run()
        case .churn: try ChurnRun(workload: workload, maker: maker, monitor: monitor).run()
        }
    }
}
