import Platform

/// Publishes as long as messages are to flow: in a closed loop as many as come back, in an open one at a fixed rate.
final class StreamDriver: LoadDriver {
    private let workload: Workload
    private let control: LoadControl
    private let filler: PayloadFiller
    private let publisherIndexes: [Int]
    private var opener: ClientOpener
    private var publishers: [Publisher] = []
    /// The publisher whose turn it is.
    private var cursor = 0
    private var openLoop: OpenLoop?
    private var timer: PacingTimer?

    /// - Parameter share: which publishers and subscribers are this worker's.
    init(_ workload: Workload, share: WorkerShare, maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.workload = workload
        self.control = control
        self.filler = filler
        publisherIndexes = share.publishers
        let subscribers = share.subscribers.map { ClientSpecification.subscriber($0, workload) }
        let publishers = share.publishers.map { ClientSpecification.publisher($0, workload) }
        opener = ClientOpener(subscribers + publishers, maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring: publish(worker)
        case .draining: break
        case .over: endAll(worker)
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {
        if workload.publisherCount == 0, client.connection.isReady { client.connection.releaseMemory() }
    }

    func ended(_ client: LoadClient, _ worker: Worker) {
        if control.phase != .over { worker.endedCount += 1 }
    }

    private func endAll(_ worker: Worker) {
        timer?.deregister(from: worker.events)
        opener.endAll(worker)
    }

    private func publish(_ worker: Worker) {
        if publishers.isEmpty { makePublishers() }
        guard !publishers.isEmpty else { return }
        if let rate = workload.rate {
            publishDue(worker, rate * Double(publishers.count) / Double(workload.publisherCount))
        } else {
            publishCredit(worker)
        }
    }

    private func makePublishers() {
        let clients = opener.clients.suffix(publisherIndexes.count)
        publishers = zip(clients, publisherIndexes).map { client, index in
            Publisher(client: client, index: index, workload: workload, filler: filler)
        }
    }
}

// MARK: - Closed loop

extension StreamDriver {
    /// Publishes until the window is full, a burst for each publisher in turn.
    private func publishCredit(_ worker: Worker) {
        var credit = credit(worker)
        let burst = publishers.count > 8 ? 4 : 32
        for _ in 0..<Self.roundsPerTurnMax {
            var isAnyOpen = false
            for _ in publishers.indices {
                guard credit > 0 else { return }
                let count = publishBurst(worker, min(burst, credit))
                credit -= count
                if count > 0 { isAnyOpen = true }
            }
            if !isAnyOpen { return }
        }
        // Sockets took all of it: more can go out at once.
        worker.events.wake()
    }

    /// Lets the next publisher put out at most that many; returns how many it did.
    private func publishBurst(_ worker: Worker, _ countMax: Int) -> Int {
        let index = cursor
        cursor = cursor + 1 == publishers.count ? 0 : cursor + 1
        guard publishers[index].mayPublish else { return 0 }
        let stamp = MonotonicClock.nanoseconds()
        var count = 0
        while count < countMax, publishers[index].mayPublish {
            publishers[index].publish(stamp: stamp)
            count += 1
        }
        publishers[index].client.flush(worker)
        return count
    }

    /// How many messages may be published before one comes back.
    private func credit(_ worker: Worker) -> Int {
        let fan = workload.deliveriesPerPublish
        guard fan > 0 else { return .max }
        var published = worker.tally.publishedCount
        var delivered = worker.tally.deliveredCount
        for (index, progress) in control.progress.enumerated() where index != worker.index {
            let counts = progress.counts
            published &+= counts.published
            delivered &+= counts.delivered
        }
        return workload.window + Int(control.forgiven) + Int(delivered) / fan - Int(published)
    }

    private static let roundsPerTurnMax = 8
}

// MARK: - Open loop

extension StreamDriver {
    /// Publishes what is due, and lets a turn begin when the next message is.
    private func publishDue(_ worker: Worker, _ rate: Double) {
        let now = MonotonicClock.nanoseconds()
        var loop = openLoop ?? OpenLoop(start: now, messagesPerSecond: rate)
        while loop.nextDue <= now, let index = nextOpenPublisher() {
            publishers[index].publish(stamp: loop.nextDue)
            publishers[index].client.flush(worker)
            loop.advance()
        }
        openLoop = loop
        setTimer(worker, at: loop.nextDue, now: now)
    }

    /// The next publisher that may publish, nil if none may.
    private func nextOpenPublisher() -> Int? {
        for _ in publishers.indices {
            let index = cursor
            cursor = cursor + 1 == publishers.count ? 0 : cursor + 1
            if publishers[index].mayPublish { return index }
        }
        return nil
    }

    private func setTimer(_ worker: Worker, at due: UInt64, now: UInt64) {
        if timer == nil {
            timer = try? PacingTimer()
            try? timer?.register(on: worker.events)
        }
        // A message that is late already waits for a window, and an acknowledgement begins the turn; look again soon in
        // any case.
        timer?.set(at: max(due, now + 50_000))
    }
}

/// When messages of a fixed rate are due: message k at `start + k / rate`, whatever became of the ones before.
///
/// A message that is late for want of a window or of time keeps the stamp of when it was due, so that what a stalled
/// broker delays is measured in full (no coordinated omission).
struct OpenLoop {
    private let start: UInt64
    private let nanosecondsPerMessage: Double
    private var sent: UInt64 = 0

    init(start: UInt64, messagesPerSecond: Double) {
        self.start = start
        nanosecondsPerMessage = 1e9 / messagesPerSecond
    }

    /// When the next message is due, in nanoseconds.
    var nextDue: UInt64 { start &+ UInt64(Double(sent) * nanosecondsPerMessage) }

    /// The next message has been put out.
    mutating func advance() { sent += 1 }
}

/// A client that publishes, and what: one template for each topic that it goes round.
struct Publisher {
    let client: LoadClient
    private let templates: [PublishTemplate]
    private var next = 0

    init(client: LoadClient, index: Int, workload: Workload, filler: PayloadFiller) {
        self.client = client
        templates = (0..<workload.topicsPerPublisher).map { topic in
            PublishTemplate(
                topic: workload.topic(publisher: index, index: topic), filler: filler, qos: workload.qos,
                version: workload.options.version, publisher: index)
        }
    }

    /// Whether it may put a message out now: its connection is open, its window too, and what it put out before has
    /// mostly left.
    var mayPublish: Bool {
        let connection = client.connection
        return connection.outputByteCount <= Self.waitingBytesMax && connection.mayPublish(templates[next].qos)
    }

    /// Puts one message out. To be called only if `mayPublish`.
    mutating func publish(stamp: UInt64) {
        client.connection.publish(templates[next], stamp: stamp)
        if templates.count > 1 { next = next + 1 == templates.count ? 0 : next + 1 }
    }

    private static let waitingBytesMax = 32 << 10
}
