import EpollLoop

/// Clients that connect, subscribe if they subscribe to anything, and say goodbye when the run is over.
final class VisitDriver: LoadDriver {
    private let control: LoadControl
    private var opener: ClientOpener

    init(_ visitors: [ClientSpecification], _ workload: Workload, maker: ChannelMaker, control: LoadControl) {
        self.control = control
        opener = ClientOpener(visitors, maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring, .draining: break
        case .over: opener.endAll(worker)
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {}

    func ended(_ client: LoadClient, _ worker: Worker) {
        if control.phase != .over { worker.endedCount += 1 }
    }
}
