import EpollLoop
import MQTTCodec

/// Clients that publish at QoS 0 as fast as their sockets take it, each to one subscriber.
///
/// Nothing of theirs is timed, and losses are theirs to bear. Their thread gives way to others: whom they delay is to be the broker's
/// doing, and not that of a load generator which shares its cores.
final class FloodDriver: LoadDriver {
    private let control: LoadControl
    private let templates: [PublishTemplate]
    private var opener: ClientOpener
    private var hasGivenWay = false

    init(_ workload: Workload, maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.control = control
        let indexes = 0..<workload.floodCount
        templates = indexes.map { index in
            PublishTemplate(
                topic: Workload.name("bench/flood/\(index)"), filler: filler, qos: .atMostOnce, version: workload.options.version)
        }
        let publishers = indexes.map { ClientSpecification(index: $0, subscription: nil, connect: workload.connect("f", $0)) }
        let subscribers = indexes.map { index in
            ClientSpecification(
                index: index,
                subscription: Subscription(
                    filter: Workload.filter("bench/flood/\(index)"), options: SubscriptionOptions(maximumQoS: .atMostOnce)),
                connect: workload.connect("r", index))
        }
        opener = ClientOpener(publishers + subscribers, maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        if !hasGivenWay {
            hasGivenWay = true
            ThreadPriority.lower()
        }
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring: publish(worker)
        case .draining: break
        case .over: for client in opener.clients { client.end(worker) }
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {}

    func ended(_ client: LoadClient, _ worker: Worker) {
        if control.phase != .over { worker.endedCount += 1 }
    }

    /// Fills the sockets that have room; the loop tells when others do.
    private func publish(_ worker: Worker) {
        var hasRoom = false
        for (client, template) in zip(opener.clients, templates) where client.connection.mayPublish(.atMostOnce) {
            guard client.connection.outputByteCount == 0 else { continue }
            for _ in 0..<Self.burst { client.connection.publish(template, stamp: 0) }
            client.flush(worker)
            if client.connection.outputByteCount == 0 { hasRoom = true }
        }
        if hasRoom { worker.events.wake() }
    }

    private static let burst = 256
}
