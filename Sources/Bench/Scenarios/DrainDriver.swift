import Platform

/// One subscriber that takes retained messages; tells as its rounds how many nanoseconds it took from the connection's beginning.
final class DrainDriver: LoadDriver {
    private let control: LoadControl
    private let count: UInt64
    private var opener: ClientOpener
    private var start: UInt64 = 0

    init(_ workload: Workload, maker: ChannelMaker, control: LoadControl, count: UInt64) {
        self.control = control
        self.count = count
        opener = ClientOpener([.subscriber(0, workload)], maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        if start == 0 { start = MonotonicClock.nanoseconds() }
        if control.phase == .connecting { _ = opener.proceed(worker) }
        if control.phase == .over { opener.clients.first?.end(worker) }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {
        if client.connection.deliveredCount <= count { worker.rounds = worker.recorder.now - start }
    }

    func ended(_ client: LoadClient, _ worker: Worker) { worker.endedCount += 1 }
}
