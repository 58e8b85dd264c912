package import BrokerCore
package import BrokerModel
import EpollLoop
package import Federation
package import MQTTCodec
package import Transports

/// What the control thread has to say to the bridges of a loop, and the resolver.
package enum BridgeMessage: Sendable {
    /// Run this bridge from now on, or as this plan says.
    ///
    /// - Parameters:
    ///   - atOnce: whether a connection that stands is ended for a change in any case.
    ///   - isPaused: whether one that is new rests until it is resumed.
    case run(BridgePlan, atOnce: Bool, isPaused: Bool)
    /// End its connection; its session stays.
    case pause(String)
    case resume(String)
    /// End it, and forget it and its session here.
    case remove(String)
    /// End a session that was a connection's of a bridge that has fewer of them now.
    case endSession(EncodedString)
    /// How all connections of a bridge are together, for its first one to tell below `$SYS`.
    case sum(BridgeStatus)
    /// Tell how the bridges are.
    case report
    case resolved(String, serial: Int, isProbe: Bool, Result<BridgeRoute, BridgeRouteFailure>)
}

/// How a connection of a bridge is, and what waits for it here; or all of them together.
package struct BridgeStatus: Sendable {
    package let name: String
    /// Counted from 1; of all together, 1.
    package let connection: Int
    /// At the other broker.
    package let clientIdentifier: EncodedString
    package let report: BridgeReport
    /// The address that is connected, or tried; nil before the first attempt.
    package let address: String?
    package let backlog: SessionBacklog
    package let rates: BridgeRates

    package init(
        name: String, connection: Int, clientIdentifier: EncodedString, report: BridgeReport, address: String?,
        backlog: SessionBacklog, rates: BridgeRates
    ) {
        self.name = name
        self.connection = connection
        self.clientIdentifier = clientIdentifier
        self.report = report
        self.address = address
        self.backlog = backlog
        self.rates = rates
    }
}

/// The bridges of one loop: those whose local session lives there.
package struct LoopBridges {
    var runners: [BridgeRunner] = []
    /// When `$SYS` is told of them next.
    var systemTopicsDueAt: UInt64 = 0
    package let resolver = NameResolver()
    private var lastSerial = 0
    /// What the connections read into; made for the first one.
    package lazy var room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
    package var isEmpty: Bool { runners.isEmpty }

    /// Numbers what the resolver is asked, over all bridges: one may be removed, and another of its name be there when the answer comes.
    mutating func nextSerial() -> Int {
        lastSerial += 1
        return lastSerial
    }
    package var nextDeadline: UInt64? { runners.compactMap(\.nextDeadline).min() }
}

extension ShardLoop {
    package func received(_ message: BridgeMessage) {
        func runner(_ name: String) -> BridgeRunner? { bridges.runners.first { $0.plan.key == name } }
        switch message {
        case .run(let plan, let atOnce, let isPaused):
            if let known = runner(plan.key) { return known.renew(plan, atOnce: atOnce) }
            guard !isStopping else { return }
            let made = BridgeRunner(plan, on: self)
            bridges.runners.append(made)
            if !isPaused { made.start() }
        case .pause(let name): runner(name)?.stop()
        case .resume(let name): runner(name)?.start()
        case .remove(let name):
            guard let removed = runner(name) else { return }
            removed.stop()
            removed.forgetTopics()
            bridges.runners.removeAll { $0 === removed }
            // Another of its name may follow at once.
            shard.endLocalSession(of: removed.plan.settings.localClientIdentifier)
        case .endSession(let clientIdentifier):
            shard.endLocalSession(of: clientIdentifier)
        case .sum(let status): runner(status.name)?.sum = status
        case .report:
            let statuses = bridges.runners.map { $0.status() }
            control?.post(.bridges(statuses))
            sendSystemTopics(statuses)
        case .resolved(let name, let serial, let isProbe, let result):
            runner(name)?.resolved(serial, isProbe: isProbe, result)
        }
    }

    /// Tells of bridges below `$SYS`, as often as of all else; the control thread asks every second, give or take half of one.
    private func sendSystemTopics(_ statuses: [BridgeStatus]) {
        let now = events.nowMilliseconds
        let interval = UInt64(shard.settings.systemIntervalSeconds) * 1000
        guard interval > 0, now + 500 >= bridges.systemTopicsDueAt else { return }
        bridges.systemTopicsDueAt = now + interval
        for (runner, status) in zip(bridges.runners, statuses) {
            if runner.plan.connectionCount == 1 { runner.tell(status) } else if let sum = runner.sum { runner.tell(sum) }
        }
    }

    func advanceBridges(now: UInt64) {
        for runner in bridges.runners {
            if let deadline = runner.nextDeadline, deadline <= now { runner.advance(now: now) }
        }
    }

    package func received(_ event: LocalEvent, of id: ConnectionID) {
        bridges.runners.first { $0.client == id }?.received(event)
    }

    /// Says goodbye to all other brokers.
    func stopBridges() {
        for runner in bridges.runners { runner.stop() }
    }
}
