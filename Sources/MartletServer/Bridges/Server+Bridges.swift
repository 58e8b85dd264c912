import BrokerCore
import Configuration
import EpollLoop
import Federation

/// The bridges that the configuration asks for. On the control thread.
extension Server {
    /// What each `connection` section asks for. Throws what is wrong with one of them.
    static func bridgePlans(_ configuration: BrokerConfiguration) throws(ServerError) -> [BridgePlan] {
        var plans: [BridgePlan] = []
        for bridge in configuration.bridges { plans.append(try BridgePlan(bridge, in: configuration)) }
        return plans
    }

    /// Has the loops run the bridges.
    func startBridges() {
        for plan in bridgePlans { tell(.run(plan), plan) }
    }

    /// Has the loops follow a configuration that was read again.
    func renewBridges(_ plans: [BridgePlan]) {
        for old in bridgePlans {
            let successor = plans.first { $0.name == old.name }
            guard let successor, shard(of: successor) == shard(of: old),
                successor.settings.localClientIdentifier == old.settings.localClientIdentifier
            else {
                tell(.remove(old.name), old)
                continue
            }
        }
        for plan in plans { tell(.run(plan), plan) }
        bridgePlans = plans
    }

    private func tell(_ letter: BridgeLetter, _ plan: BridgePlan) {
        loops[shard(of: plan)].mailbox.post(.bridge(letter))
    }

    private func shard(of plan: BridgePlan) -> Int { loops[0].shard.placement.shard(of: plan.settings.localClientIdentifier) }
}
