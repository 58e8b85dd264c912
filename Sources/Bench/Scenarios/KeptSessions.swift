import MQTTCodec

/// The sessions of a run that outlive their connections, from before its first connection until after its last.
///
///     prepare ─► run ─► remove
struct KeptSessions {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    /// Measures with those away who are to be. Afterwards no session is left, or `left` says why one may be.
    func around<Result>(_ run: () throws(BenchError) -> Result) throws(BenchError) -> (result: Result, left: String?) {
        try prepare()
        do throws(BenchError) {
            let result = try run()
            return (result, remove())
        } catch {
            _ = remove()
            throw error
        }
    }

    /// Everyone whose session outlives a connection.
    var all: [ClientSpecification] {
        guard workload.options.keepsSessions else { return away }
        let publishers = (0..<workload.publisherCount).map { ClientSpecification.publisher($0, workload) }
        let subscribers = (0..<workload.subscriberCount).map { ClientSpecification.subscriber($0, workload) }
        return publishers + subscribers + away
    }

    private var away: [ClientSpecification] { (0..<workload.awayCount).map { .away($0, workload) } }

    /// Subscribes for those who are to be away, and lets them go. Throws when the broker does not let them in.
    ///
    /// A run that was killed may have left sessions of the same names: in a container all have one process identifier. MQTT 5.0 begins
    /// anew by itself; before that they have to be removed first.
    private func prepare() throws(BenchError) {
        if workload.options.version != .v5 { try visit(all.map(\.remover)) }
        try visit(away)
    }

    /// Lets the broker forget all of them, and what waits for them. Returns why it may not have, nil when it has.
    ///
    /// It is given as long as a load may take to connect.
    private func remove() -> String? {
        do throws(BenchError) {
            try visit(all.map(\.remover))
            return nil
        } catch {
            return "\(error)"
        }
    }

    /// Lets all of them connect, and leave when the broker has taken in every one.
    private func visit(_ visitors: [ClientSpecification]) throws(BenchError) {
        guard !visitors.isEmpty else { return }
        let crew = try WorkerCrew(count: 1) { _, control in
            VisitDriver(visitors, workload, maker: maker, control: control)
        }
        try crew.start()
        try crew.awaitReady(visitors.count, monitor: monitor)
        crew.finish()
        monitor.clear()
    }
}
