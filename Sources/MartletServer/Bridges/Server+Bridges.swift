import Administration
import BrokerCore
import Configuration
import EpollLoop
import Federation

/// The bridges that the configuration asks for. On the control thread.
extension Server {
    /// What each `connection` section asks for. Throws what is wrong with one of them.
    static func bridgePlans(_ configuration: BrokerConfiguration) throws(ServerError) -> [BridgePlan] {
        var plans: [BridgePlan] = []
        for bridge in configuration.bridges {
            let plan = try BridgePlan(bridge, in: configuration)
            let identifier = plan.settings.localClientIdentifier
            if let twin = plans.first(where: { $0.settings.localClientIdentifier == identifier }) {
                throw .bridge(name: plan.name, reason: "its local_clientid \(identifier) is that of bridge \(twin.name) too")
            }
            plans.append(plan)
        }
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

    /// Asks the loops how their bridges are.
    func askForBridges() {
        guard !bridgePlans.isEmpty else { return }
        for loop in Set(bridgePlans.map { shard(of: $0) }).sorted() { loops[loop].mailbox.post(.bridge(.report)) }
    }

    /// A loop has told. What is configured no more is left out.
    func note(_ statuses: [BridgeStatus]) {
        let names = Set(bridgePlans.map(\.name))
        bridgeStatuses = bridgeStatuses.filter { names.contains($0.key) }
        for status in statuses where names.contains(status.name) { bridgeStatuses[status.name] = status }
    }

    /// How often the loops are asked.
    static let bridgeReportMilliseconds: UInt64 = 1000

    private func tell(_ letter: BridgeLetter, _ plan: BridgePlan) {
        loops[shard(of: plan)].mailbox.post(.bridge(letter))
    }

    private func shard(of plan: BridgePlan) -> Int { loops[0].shard.placement.shard(of: plan.settings.localClientIdentifier) }
}

extension AdministeredBridge {
    fileprivate init(_ name: String, _ report: BridgeReport) {
        self.init(name: name)
        isConnected = report.state == .connected
        connections = report.connectionCount
        (messagesOut, messagesIn) = (report.messagesOut, report.messagesIn)
        (droppedOut, droppedIn) = (report.droppedOut, report.droppedIn)
    }

    init(_ status: BridgeStatus) {
        self.init(status.name, status.report)
        queuedMessages = status.queuedMessages
    }
}
