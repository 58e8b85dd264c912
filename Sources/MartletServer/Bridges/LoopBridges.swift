import BrokerCore
import EpollLoop
import Federation
import Transports

/// What the control thread has to say to the bridges of a loop, and the resolver.
enum BridgeLetter: Sendable {
    /// Run this bridge from now on, or as this plan says.
    case run(BridgePlan)
    /// End its connection; its session stays.
    case pause(String)
    case resume(String)
    /// End it, and forget it and its session here.
    case remove(String)
    /// Tell how the bridges are.
    case report
    case resolved(String, serial: Int, isProbe: Bool, Result<[SocketAddress], ResolutionError>)
}

/// How a bridge is, and how many messages wait for it here.
struct BridgeStatus: Sendable {
    let name: String
    let report: BridgeReport
    let queuedMessages: Int
}

/// The bridges of one loop: those whose local session lives there.
struct LoopBridges {
    var runners: [BridgeRunner] = []
    let resolver = NameResolver()
    /// What the connections read into; made for the first one.
    lazy var room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
    var isEmpty: Bool { runners.isEmpty }
    var nextDeadline: UInt64? { runners.compactMap(\.nextDeadline).min() }
}

extension ShardLoop {
    func received(_ letter: BridgeLetter) {
        func runner(_ name: String) -> BridgeRunner? { bridges.runners.first { $0.plan.name == name } }
        switch letter {
        case .run(let plan):
            if let known = runner(plan.name) { return known.renew(plan) }
            guard !isStopping else { return }
            let made = BridgeRunner(plan, on: self)
            bridges.runners.append(made)
            made.start()
        case .pause(let name): runner(name)?.stop()
        case .resume(let name): runner(name)?.start()
        case .remove(let name):
            guard let removed = runner(name) else { return }
            removed.stop()
            bridges.runners.removeAll { $0 === removed }
            _ = shard.order(ShardOrder(.endSession(removed.plan.settings.localClientIdentifier, publishesWill: false)))
        case .report:
            let statuses = bridges.runners.map { runner in
                BridgeStatus(
                    name: runner.plan.name, report: runner.bridge.report,
                    queuedMessages: shard.unacknowledgedMessages(of: runner.plan.settings.localClientIdentifier))
            }
            control?.post(.bridges(statuses))
        case .resolved(let name, let serial, let isProbe, let result):
            runner(name)?.resolved(serial, isProbe: isProbe, result)
        }
    }

    func advanceBridges(now: UInt64) {
        for runner in bridges.runners {
            if let deadline = runner.nextDeadline, deadline <= now { runner.advance(now: now) }
        }
    }

    func received(_ event: LocalEvent, of id: ConnectionID) {
        bridges.runners.first { $0.client == id }?.received(event)
    }

    /// Says goodbye to all other brokers.
    func stopBridges() {
        for runner in bridges.runners { runner.stop() }
    }
}
