import Cluster
import NATSClient
import Platform
import ServerLoops

/// What nodes tell each other of themselves, and ask each other for administrators. Belongs to the loop that speaks to
/// the servers.
///
///     control thread ── summary ──► ClusterMembers ──► all nodes         (every other second, and when a node asks)
///     control thread ── question ─► ClusterMembers ──► each other node ──► its control thread ──► the answer, back the same way
final class ClusterMembers {
    /// What the other nodes answer to one question.
    private final class Gathering {
        var reports: [NodeReport]
        var missing: Int

        init(_ nodes: [ClusterMember]) {
            reports = nodes.map { NodeReport(node: $0.shownName, answer: nil) }
            missing = nodes.count
        }
    }

    private(set) var table: MemberTable
    private(set) var clocks = ClockWatch()
    private let space: SubjectSpace
    private let connection: NATSConnection
    /// The connection's numbers of what is subscribed to; nil without a connection.
    private var summaries: UInt64?
    private var questions: UInt64?
    /// What this node has said of itself last.
    private var own: NodeSummary?
    /// Whether the others are asked to say who they are with the next summary.
    private var asks = false
    /// How many questions the others have not all answered.
    private var openCount = 0
    /// Where the answers to others' questions go, by their numbers.
    private var asked: [UInt64: Subject] = [:]
    private var lastAsked: UInt64 = 0
    private(set) var illegible: UInt64 = 0

    init(node: NodeID, space: SubjectSpace, connection: NATSConnection) {
        table = MemberTable(node: node)
        (self.space, self.connection) = (space, connection)
    }

    // MARK: The connection

    func attached() {
        summaries = SubjectPattern(space.summaries).map { connection.subscribe($0) }
        questions = SubjectPattern(space.questions(to: table.node)).map { connection.subscribe($0) }
        asks = true
        sayHow()
    }

    /// Takes note that the connection is gone, with all subscriptions on it.
    func detached() {
        (summaries, questions) = (nil, nil)
        asked = [:]
    }

    /// Goes on as another incarnation of this node; to be called without a connection.
    func begin(as node: NodeID, now: UInt64) {
        table.begin(as: node, now: now)
        own = nil
    }

    // MARK: Summaries

    /// Sends this node's summary to the others, and records it.
    func record(_ summary: NodeSummary, now: UInt64) {
        own = summary
        table.heard(summary, now: now)
        sayHow()
    }

    /// Takes the list of the nodes that hold a lease.
    func list(_ nodes: [NodeID], now: UInt64) { table.listed(nodes, now: now) }

    func settle(now: UInt64) { table.settle(now: now) }

    /// All nodes that are known, with what is known of their clocks.
    var members: [ClusterMember] {
        table.members.map { member in
            var member = member
            member.clockOffset = member.state == .up && !member.isSelf ? clocks.offset(of: member.node) : nil
            return member
        }
    }

    /// The nodes whose clocks have begun to differ from this node's, or do so no more, in words.
    func clockNews() -> [(isFar: Bool, words: String)] {
        clocks.keep(Set(table.members.lazy.filter { $0.state == .up }.map(\.node)))
        return clocks.news().map { node, offset, isFar in
            let name = table.shownName(of: node)
            guard isFar else { return (false, "the clocks of \(name) and of this node agree again.") }
            return (
                true,
                "the clock of \(name) is \(ClockWatch.words(offset)) that of this node: messages that expire are lost, or come too late, and "
                    + "bans end at the wrong time. Have all hosts set their clocks (NTP)."
            )
        }
    }

    /// Tells the others that this node leaves.
    func sayGoodbye() {
        own?.isLeaving = true
        sayHow()
    }

    private func sayHow() {
        guard summaries != nil, var own, let subject = Subject(space.summaries) else { return }
        (own.asks, own.clock) = (asks, WallClock.milliseconds())
        asks = false
        // The next one comes in a moment.
        try? connection.publish(subject, payload: own.encoded)
    }

    /// Takes a message if it is for this; `ask` hands on what an administrator of another node wants.
    func take(_ message: MessageView, now: UInt64, ask: (UInt64, NodeQuestion) -> Void) -> Bool {
        switch message.subscription {
        case summaries:
            guard let summary = NodeSummary(reading: message.payload) else {
                illegible += 1
                return true
            }
            guard summary.node != table.node else { return true }
            clocks.heard(summary.clock, of: summary.node, at: WallClock.milliseconds())
            if table.heard(summary, now: now) { sayHow() }
            return true
        case questions:
            // Servers ask for no right to publish there: whoever asks does not choose what a node writes to.
            guard message.reply.starts(with: "_INBOX.".utf8), let reply = Subject(message.reply),
                let question = NodeQuestion(reading: message.payload)
            else {
                illegible += 1
                return true
            }
            guard asked.count < ClusterLimits.nodeQuestionsMax else {
                try? connection.publish(reply, payload: Self.busy.encoded)
                return true
            }
            lastAsked += 1
            asked[lastAsked] = reply
            ask(lastAsked, question)
            return true
        default: return false
        }
    }

    /// Sends the control thread's answer to another node's question.
    func answer(_ number: UInt64, _ answer: NodeAnswer) {
        guard let reply = asked.removeValue(forKey: number) else { return }
        do throws(NATSRefusal) {
            try connection.publish(reply, payload: answer.encoded)
        } catch {
            // Too large for the servers, or they do not read.
            try? connection.publish(reply, payload: Self.busy.encoded)
        }
    }

    // MARK: Questions

    /// Asks all other nodes; `then` gets their reports when each has answered, or has had its time.
    func ask(_ question: NodeQuestion, then: @escaping ([NodeReport]) -> Void) {
        let others = table.others
        let gathering = Gathering(others)
        guard !others.isEmpty, openCount < ClusterLimits.nodeQuestionsMax else { return then(gathering.reports) }
        openCount += 1
        let payload = question.encoded
        for (place, other) in others.enumerated() {
            guard let subject = Subject(space.questions(to: other.node)) else { preconditionFailure("a node has a subject") }
            connection.request(subject, payload: payload, within: Limits.nodeAnswerMillisecondsMax) { [unowned self] answer in
                if case .message(let message) = answer {
                    gathering.reports[place].answer = message.payload.withUnsafeBytes { NodeAnswer(reading: $0) }
                }
                gathering.missing -= 1
                guard gathering.missing == 0 else { return }
                openCount -= 1
                then(gathering.reports)
            }
        }
    }

    private static let busy = NodeAnswer(status: 503, body: [])
}

extension Limits {
    /// How long nodes have to answer what they are asked for an administrator, in milliseconds.
    static let nodeAnswerMillisecondsMax: UInt64 = 2000
}
