internal import BrokerCore
import BrokerModel
internal import BrokerSimulation
internal import Platform

extension Simulation {
    /// A broker of a simulation: the real core, with 1 to 3 shards.
    public final class Broker: @unchecked Sendable {
        // Unchecked: only the simulation's thread touches it, on which its tasks run.
        let core: Core

        final class Core {
            var broker: SimulatedBroker
            let published = PublishedMessages()
            var downUntil: UInt64 = 0

            init(_ broker: SimulatedBroker) {
                self.broker = broker
                watch()
            }

            func watch() {
                for shard in broker.cores { shard.watcher = { [published] in published.append($0) } }
            }
        }

        private unowned let world: Simulation
        /// What clients connect to.
        public var address: ServerAddress { world.address(of: self) }

        init(_ world: Simulation, _ broker: SimulatedBroker) {
            (self.world, core) = (world, Core(broker))
        }

        /// All messages that were published, in the order in which it took them; a message of QoS 2 once, unless a crash in between lost it.
        public var published: [Publication] { core.published.all }

        /// Those to a topic.
        public func published(_ topic: TopicName) -> [Publication] { core.published.to(topic) }

        /// The retained messages, sorted by topic.
        public var retained: [Publication] { core.broker.retainedMessages() }

        /// The filters that a client subscribes to, sorted, also while it is away.
        public func subscriptions(of clientIdentifier: String) -> [TopicFilter] { core.broker.filters(of: clientIdentifier) }

        /// The identifiers of the clients that are connected, sorted.
        public var clients: [String] { core.broker.connectedClients() }

        /// Ends without a word, as a power cut does, and starts again: on what its store had committed, and on nothing without a store.
        ///
        /// - Parameter downtime: for so long nobody can connect.
        public func crash(for downtime: Duration = .zero) { world.crash(self, for: downtime) }
    }

    /// Makes a broker.
    ///
    /// - Parameters:
    ///   - shards: 1 to 64 loops; nil lets the seed choose 1 to 3.
    ///   - isPersistent: whether it has a store, which commits late and loses what it has not committed in a crash.
    ///   - receiveMaximum: how many messages of QoS 1 and 2 it has in flight with a client, in each direction.
    ///   - queuedMessagesMax: how many more may wait for a client; it drops those beyond.
    public func broker(
        shards: Int? = nil, isPersistent: Bool = false, receiveMaximum: UInt16 = 20, queuedMessagesMax: Int = 1000
    ) -> Broker {
        let count = shards ?? Int.random(in: 1...3, using: &random)
        var settings = SimulatedBroker.testSettings
        (settings.inFlightMessagesMax, settings.queuedMessagesMax) = (Int(receiveMaximum), queuedMessagesMax)
        let core = SimulatedBroker(
            shards: count, settings: settings, seed: random.next(), store: isPersistent ? SimulatedStore(seed: seed) : nil,
            start: time.now)
        // The broker's own tests look into it after each turn.
        core.checksInvariants = false
        let broker = Broker(self, core)
        brokers.append(broker)
        return broker
    }

    func crash(_ broker: Broker, for downtime: Duration) {
        for link in links where link.broker === broker { link.cable.breakOff() }
        let old = broker.core.broker
        let committing = old.store.map { Int.random(in: 0...$0.waitingCount, using: &random) } ?? 0
        broker.core.broker = old.crashed(committing: committing, seed: random.next())
        broker.core.broker.checksInvariants = false
        broker.core.watch()
        broker.core.downUntil = time.now + downtime.wholeMilliseconds
    }
}

extension Duration {
    /// Rounded up; 0 for what is negative.
    var wholeMilliseconds: UInt64 {
        let (seconds, attoseconds) = components
        return UInt64(max(0, seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
    }
}
