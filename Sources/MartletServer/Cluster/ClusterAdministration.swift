import Administration
import BrokerModel
import Cluster
import ClusterGateway
import Configuration
import EpollLoop
import Platform
import ServerLoops

/// The control thread's part in a cluster: says how this node is, hands on what administrators ask other nodes, and what those ask here.
final class ClusterAdministration {
    private unowned let server: Server
    private let plan: ClusterPlan
    private var waiting: [UInt64: ([NodeResponse]) -> Void] = [:]
    private var lastToken: UInt64 = 0
    /// The counts of the summary before this one.
    private var before: (at: UInt64, received: UInt64, sent: UInt64, processorSeconds: Double)?

    init(_ plan: ClusterPlan, _ server: Server) { (self.plan, self.server) = (plan, server) }

    private func post(_ message: ClusterLoopMessage) { server.loops[0].mailbox.post(.cluster(message)) }

    // MARK: How it is

    /// Counts, and has the others told.
    func summarize() {
        server.brokerClient?.statistics { [weak self] shards in
            if let self, !shards.isEmpty { post(.summary(figures(shards))) }
        }
    }

    private func figures(_ shards: [ShardStatistics]) -> NodeFigures {
        let now = MonotonicClock.milliseconds()
        var sum = ShardStatistics()
        for shard in shards { sum.add(shard) }
        var figures = NodeFigures()
        figures.startedAt = server.startedAt
        figures.clientsConnected = UInt64(max(0, sum.clientsConnected - sum.localClientsConnected))
        figures.sessions = UInt64(max(0, sum.clientsTotal))
        figures.subscriptions = UInt64(max(0, sum.subscriptions))
        figures.retainedMessages = UInt64(max(0, sum.retainedMessages))
        figures.storedMessages = UInt64(max(0, sum.storedMessages))
        figures.dropped = sum.drops.total
        figures.residentBytes = ProcessFigures.residentBytes()
        let seconds = ProcessFigures.processorSeconds()
        if let before, now > before.at {
            let time = now - before.at
            figures.receivedRate = (sum.publishReceived &- before.received) * 1000 / time
            figures.sentRate = (sum.publishSent &- before.sent) * 1000 / time
            figures.processorLoad = UInt64(max(0, (seconds - before.processorSeconds) * 1_000_000) / Double(time))
        }
        before = (now, sum.publishReceived, sum.publishSent, seconds)
        figures.isDraining = server.drain?.status != nil
        figures.dashboard = dashboard
        if server.keeper != nil, server.storeTrouble != .good { figures.trouble = "the store is \(server.storeTrouble.rawValue)" }
        return figures
    }

    /// Where people reach this node's dashboard: at the host of its address, if a listener of HTTP is to be reached from elsewhere.
    private var dashboard: String {
        guard let host = plan.host else { return "" }
        for listener in server.configuration.openListeners where listener.application == .httpAPI {
            guard case .tcp(let port, let bound) = listener.endpoint, bound.map({ !Self.isOwnMachine($0) }) ?? true else {
                continue
            }
            return "\(listener.tls.isEnabled ? "https" : "http")://\(host):\(port)/dashboard/"
        }
        return ""
    }

    private static func isOwnMachine(_ host: String) -> Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    // MARK: Administrators

    /// Asks all other nodes.
    func ask(_ request: NodeRequest, _ done: @escaping ([NodeResponse]) -> Void) {
        guard waiting.count < ClusterLimits.nodeQuestionsMax else {
            return done(
                server.clusterStatus.members.filter { !$0.isSelf && $0.state == .up }.map {
                    NodeResponse(node: $0.shownName, status: nil, body: [])
                })
        }
        lastToken += 1
        waiting[lastToken] = done
        post(
            .ask(
                token: lastToken,
                NodeQuestion(
                    role: request.role.rawValue, method: request.method, target: request.target, who: request.who,
                    cursor: request.cursor ?? "")))
    }

    /// What they have answered.
    func answered(_ token: UInt64, _ reports: [NodeReport]) {
        waiting.removeValue(forKey: token)?(
            reports.map { NodeResponse(node: $0.node, status: $0.answer?.status, body: $0.answer?.body ?? []) })
    }

    /// Another node asks.
    func asked(_ number: UInt64, _ question: NodeQuestion) {
        guard let administration = server.administration, let role = AdministrationRole(rawValue: question.role) else {
            // Without a listener of HTTP there is nobody who could say.
            return post(.answer(number: number, NodeAnswer(status: 503, body: [])))
        }
        let request = NodeRequest(
            method: question.method, target: question.target, cursor: question.cursor.isEmpty ? nil : question.cursor, role: role,
            who: question.who)
        administration.answer(request, clock: Server.moment) { [weak self] status, body in
            self?.post(.answer(number: number, NodeAnswer(status: status, body: body)))
        }
    }
}
