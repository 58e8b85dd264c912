import Platform

/// Opens a worker's clients, a bounded number at a time: a broker's queue of connections to accept is finite.
struct ClientOpener {
    private let specifications: [ClientSpecification]
    private let maker: ChannelMaker
    private let inFlightMax: Int
    private let publisherCount: Int
    private(set) var clients: [LoadClient] = []
    /// Whether the kernel has refused to open one.
    private var isRefused = false

    init(_ specifications: [ClientSpecification], maker: ChannelMaker, workload: Workload) {
        self.specifications = specifications
        self.maker = maker
        inFlightMax = workload.options.inFlight
        publisherCount = workload.followsNumbers ? workload.publisherCount : 0
        clients.reserveCapacity(specifications.count)
    }

    /// Opens what may be opened now. Returns whether all have been.
    mutating func proceed(_ worker: Worker) -> Bool {
        while clients.count < specifications.count, !isRefused {
            guard clients.count - worker.tally.readyCount - worker.endedCount < pendingMax(worker) else { return false }
            let specification = specifications[clients.count]
            do throws(SystemError) {
                clients.append(try open(specification, worker))
            } catch {
                isRefused = true
                worker.note(failure: "\(error)")
                worker.endedCount += 1
            }
        }
        return true
    }

    /// Says goodbye for all that are there.
    func endAll(_ worker: Worker) {
        for client in clients where !client.hasEnded {
            client.connection.end()
            client.flush(worker)
            client.end(worker)
        }
    }

    /// Connections on their way at a time; one, while the others are to resume its session.
    private func pendingMax(_ worker: Worker) -> Int {
        maker.awaitsSession && worker.tally.readyCount == 0 ? 1 : Self.pendingMax
    }

    private func open(_ specification: ClientSpecification, _ worker: Worker) throws(SystemError) -> LoadClient {
        let connection = LoadConnection(
            connect: specification.connect, subscription: specification.subscription, inFlightMax: inFlightMax,
            publisherCount: specification.subscription == nil ? 0 : publisherCount, tally: worker.tally)
        let channel = try maker.makeChannel(isSubscriber: specification.subscription != nil, workspace: worker.workspace)
        return try LoadClient(connection: connection, channel: channel, worker: worker)
    }

    /// Connections on their way at a time, for each worker.
    private static let pendingMax = 128
}
