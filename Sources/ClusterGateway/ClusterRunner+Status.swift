import BrokerCore
import BrokerModel
import Cluster
import EpollLoop
import NATSClient
import ServerLoops

/// How the cluster is, for the control thread, the other nodes and the log.
extension ClusterRunner {
    /// Tells the control thread how the cluster is, and who subscribes to that.
    func report() {
        members.settle(now: now)
        for (name, nodes) in namesakes.look(members.table.namesakes, now: now) {
            let identifiers = nodes.map(\.description).joined(separator: ", ")
            log(.warning, "\(nodes.count) nodes are called \(name) (\(identifiers)): each needs a martlet_node_name of its own.")
        }
        logMixedStores()
        let awaited = isAway ? trouble : nil
        // What failed has been told.
        if let reason = awaiting.look(awaited, now: now), !toldReasons.contains(reason) {
            tell("not ready yet: \(reason)")
        }
        for (node, isSilent) in silences.look(members.table.members) { tell(node, isSilent: isSilent) }
        for (isFar, words) in members.clockNews() { log(isFar ? .warning : .notice, words) }
        let status = status
        loop.control?.post(.cluster(status))
        guard let interval = plan.systemTopicMilliseconds, now >= topicsToldAt.map({ $0 + interval }) ?? 0 else { return }
        topicsToldAt = now
        for (topic, value) in topics.changes(status, name: plan.name) { loop.shard.publishSystemTopic(topic, value) }
    }

    private func tell(_ node: NodeID, isSilent: Bool) {
        let name = members.table.shownName(of: node)
        guard isSilent else { return log(.notice, "node \(name) is up again.") }
        let clients = "clients that connect here and have their session there wait until it is back, or its lease has expired"
        log(.warning, "node \(name) is silent\(sessions == nil ? "" : "; \(clients)").")
    }

    private func logMixedStores() {
        for member in members.table.others where member.state == .up {
            guard let summary = member.summary, summary.hasStore != hasStore, toldStores.count < Limits.clusterReasonsMax,
                toldStores.insert(member.node.store).inserted
            else { continue }
            let (with, without) = hasStore ? ("this node", summary.name) : (summary.name, "this node")
            log(
                .warning,
                "\(with) has a store, and \(without) has none: what \(without) acknowledges is lost with it, and no session goes there. "
                    + "Write persistence true into the configuration of all nodes, or of none.")
        }
    }

    private var hasStore: Bool { plan.logPartitions > 0 }

    /// This node is like this: adds what is known here, and says so.
    func note(_ figures: NodeFigures) {
        var summary = NodeSummary(node: incarnations.current)
        (summary.name, summary.version, summary.address) = (plan.nodeName, plan.settings.programVersion, plan.address ?? "")
        (summary.startedAt, summary.clientsConnected, summary.sessions) = (
            figures.startedAt, figures.clientsConnected, figures.sessions
        )
        (summary.subscriptions, summary.retainedMessages) = (figures.subscriptions, figures.retainedMessages)
        (summary.storedMessages, summary.dropped) = (figures.storedMessages, figures.dropped)
        (summary.receivedRate, summary.sentRate) = (figures.receivedRate, figures.sentRate)
        (summary.residentBytes, summary.processorLoad) = (figures.residentBytes, figures.processorLoad)
        (summary.isDraining, summary.dashboard, summary.hasStore) = (figures.isDraining, figures.dashboard, hasStore)
        summary.trouble = trouble ?? recentComplaint ?? figures.trouble
        summary.server = connection.session.info.map { "\($0.serverName) \($0.version)" } ?? ""
        members.note(summary, now: now)
        report()
    }

    /// How many other nodes are there; leases of earlier incarnations of these last for a while.
    var livingOthers: Int { members.table.othersCount(among: others) }

    var status: ClusterStatus {
        var status = ClusterStatus()
        status.trouble = trouble
        status.server = connection.session.info.map { "\($0.serverName) \($0.version)" }
        status.others = livingOthers
        let counters = lane.counters
        (status.messagesOut, status.messagesIn, status.copies) = (counters.sent, counters.received, counters.copies)
        status.dropped = counters.dropped + sink.refused + retained.refused
        status.illegible = counters.illegible + sink.illegible + members.illegible + retained.illegible
        (status.members, status.sharedNames) = (members.members, members.table.namesakes.map(\.name))
        status.retainedWaiting = retained.waitingCount
        status.losses = losses
        status.refusingStreams = refusals.count
        if let counters = sessions?.counters {
            (status.sessionsTaken, status.sessionsGiven) = (counters.taken, counters.given)
            (status.sessionsLost, status.claimsRefused) = (counters.lost, counters.refused)
            (status.sessionsRestored, status.sessionsExpired) = (counters.restored, counters.leftEnded)
            status.willsOfOthers = counters.leftWills
        }
        if let counters = log?.counters {
            (status.logWritten, status.logFailed) = (counters.written, counters.failed)
            (status.logRead, status.logLost) = (counters.records, counters.lost)
            status.illegible += counters.illegible
        }
        return status
    }

    /// What the servers have not understood.
    private var recentComplaint: String? {
        complaint.flatMap { now < $0.at + Limits.clusterComplaintMilliseconds ? $0.words : nil }
    }

    /// For what this node lacks a permission. Servers say only what they refuse: what has not been refused for a while is allowed, or nobody
    /// has asked for it again.
    private var recentRefusal: String? {
        refusal.flatMap { now < $0.at + Limits.clusterRefusalMilliseconds ? $0.words : nil }
    }

    /// Why nothing is carried, or not all of it; nil if it is.
    var trouble: String? {
        if isCarrying { return recentRefusal ?? refusals.words(isCurrent: true) }
        if let awayReason { return awayReason }
        if let leaseTrouble { return withRefusals(leaseTrouble) }
        if let unsynced { return unsynced }
        if let trouble = retained.trouble ?? log?.trouble { return trouble }
        if lane.state == .open { return "the retained messages are being read (stream \(retained.streamName))" }
        let missing = lane.waitingFor
        guard !missing.isEmpty else { return "discovering the other nodes" }
        let names =
            missing.prefix(Limits.namedNodesMax).map { members.table.shownName(of: $0) }
            + (missing.count > Limits.namedNodesMax ? ["…"] : [])
        return
            "\(missing.count) other \(missing.count == 1 ? "node has" : "nodes have") not answered yet: \(names.joined(separator: ", "))"
    }

    /// A reason, with what is behind it where the servers have no room: they may not say so again.
    func withRefusals(_ reason: String) -> String {
        refusals.words(isCurrent: false).map { $0 == reason ? reason : "\(reason); \($0)" } ?? reason
    }

    func tell(_ reason: String) {
        if toldReasons.count < Limits.clusterReasonsMax, toldReasons.insert(reason).inserted { log(.warning, "\(reason).") }
    }

    func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }
}
