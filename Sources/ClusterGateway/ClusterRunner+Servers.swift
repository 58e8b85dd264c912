import BrokerCore
import BrokerModel
import Cluster
package import NATSClient
import Platform
import ServerLoops

/// What the servers say.
extension ClusterRunner: NATSListener {
    package func received(_ message: MessageView) {
        // What clients publish changes nothing that anybody here waits for.
        guard !space.isTopics(message.subject) else { return passOn(message, isNobodyThere: false) }
        if log?.received(message) ?? false { return settle() }
        if let sessions, sessions.received(message) || sessions.replay.received(message) { return }
        if access.received(message) { return }
        let isTaken = members.take(message, now: now) { loop.control?.post(.clusterAsked(number: $0, $1)) }
        guard !isTaken else { return }
        if retained.received(message) { return settle() }
        var isNobodyThere = false
        if !message.headers.isEmpty, let headers = try? MessageHeaders(reading: message.headers) {
            isNobodyThere = headers.status == 503
        }
        passOn(message, isNobodyThere: isNobodyThere)
        settle()
    }

    private func passOn(_ message: MessageView, isNobodyThere: Bool) {
        bus.received(
            subject: message.subject, reply: message.reply, isNobodyThere: isNobodyThere, payload: message.payload, now: now, sink)
    }

    package func becameReady(_ info: ServerInfo) {
        troubles.away = nil
        log(.notice, "connected to nats-server \(info.version) (\(info.serverName)).")
        loop.control?.post(.clusterReached)
        bus.attached(now: now, payloadBytesMax: info.payloadBytesMax, sink)
        members.attached()
        retained.attached(info)
        leases.begin(now: now)
        log?.attached(info)
        sessions?.attached()
        renew()
        access.begin()
        settle()
    }

    package func wentAway(_ reason: String) {
        troubles.wentAway(reason)
        report(reason)
        bus.detached(sink)
        log?.detached()
        sessions?.detached()
        retained.detached()
        connection.session.forgetSubscriptions()
        members.detached()
        leases.end()
        access.end(reason)
        settle()
    }

    package func complained(_ words: String) {
        // A node asks for nothing that it does not need.
        let isRefusal = words.hasPrefix("Permissions Violation")
        let words = isRefusal ? "the servers refuse a permission that this node needs: \(words)" : words
        troubles.complained(words, isRefusal: isRefusal, now: now)
        report(words)
    }

    package func found(_ stream: String, replicas: Int, wanted: Int) {
        // Where nothing is asked for, those who run the servers may have chosen more.
        guard plan.replicas != nil || replicas < wanted, logged.replicas.insert(stream).inserted else { return }
        let wish =
            plan.replicas == nil
            ? "\(wanted) are usual where the servers are a cluster" : "martlet_cluster_replicas asks for \(wanted)"
        log(
            .warning,
            "the stream \(stream) has \(replicas) \(replicas == 1 ? "replica" : "replicas"), and \(wish). Nodes leave a stream as it "
                + "is once it is made: nats stream edit \(stream) --replicas \(wanted) changes it.")
    }

    private func leaseAnswered(_ answer: NATSAnswer) {
        guard let info = connection.session.info else { return }
        let outcome = leases.answered(answer, now: now, info: info)
        if let (stream, replicas, wanted) = leases.otherReplicas { found(stream, replicas: replicas, wanted: wanted) }
        switch outcome {
        case .goesOn: break
        case .failed(let reason, let refusal):
            if let refusal { refusals.refused(leases.streamName, refusal) }
            troubles.lease = reason
            report(withRefusals(reason))
        case .nodes(let nodes, let sequence):
            // What the list says is for the next incarnation.
            guard !leases.hasEnded(now: now) else { break }
            if troubles.lease.take() != nil, isCarrying { logRenewal() }
            refusals.taken(leases.streamName)
            refusals.forgetOld()
            sessions?.live(nodes, through: sequence, me: leases.holder(now: now))
            members.list(nodes, now: now)
            logGone(nodes)
            // Who has said goodbye listens no more, though its lease lasts.
            let there = nodes.filter { !members.table.hasLeft($0) }
            others = Set(there).subtracting([incarnations.current])
            bus.live(there, now: now, sink)
            dispatch?.live(others)
        }
        renew()
        settle()
    }

    /// Takes back what was said of a lease that could not be renewed, and was in time.
    private func logRenewal() {
        log(.notice, "JetStream answers again: this node's lease is renewed.")
        logged.reasons = []
    }

    /// Tells which nodes have gone since the last list, and what becomes of their clients.
    private func logGone(_ nodes: [NodeID]) {
        let stores = Set(nodes.map(\.store))
        for node in others.sorted() where !stores.contains(node.store) {
            let prospect = sessions.map { "; \($0.prospect(of: node))" } ?? ""
            log(.warning, "node \(members.table.shownName(of: node)) is gone, its lease has expired\(prospect).")
        }
    }

    /// Whether messages may leave: only while the lease lasts, so that nothing of this incarnation comes into the log
    /// behind what others have read of it.
    package var maySend: Bool { !leases.hasEnded(now: loop.events.clockMicroseconds / 1000) }

    /// Takes the next step of the leases, if it is time for one.
    func renew() {
        guard let info = connection.session.info, let request = leases.next(now: now, info: info) else { return }
        connection.request(request, within: Limits.leaseAnswerMillisecondsMax) { [unowned self] in leaseAnswered($0) }
    }
}
