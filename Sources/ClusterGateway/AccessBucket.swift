import BrokerCore
import Cluster
import JSON
import NATSClient
import Platform
import ServerLoops

/// The bucket in which nodes share who may do what: dynamic security and bans.
///
///     a connection ──► reading all that is there ──► whole: what comes is told as it comes ──► a consumer is lost: all is read anew
///
/// | key | what |
/// |---|---|
/// | `dynsec`, `dynsec.PART` | dynamic security: see `SharedDocument` |
/// | `bans.DIGEST` | a ban, until it ends by itself, or the tombstone of one that was lifted |
/// | `joined.WHAT.DIGEST` | a node has brought its own |
///
/// Whatever is lost on the way, everything is read anew: what is there is small against what it would take to miss
/// nothing otherwise. Belongs to the loop that speaks to the servers.
final class AccessBucket {
    private enum Request {
        case part(String)
        case head
        case ban(token: UInt64)
        case unheeded

        var isOfDocument: Bool {
            switch self {
            case .part, .head: true
            case .ban, .unheeded: false
            }
        }
    }

    private let name: String
    private let nodeDigest: String
    private let node: NodeID
    private let plan: ClusterPlan
    private let connection: NATSConnection
    /// What this node has brought, and has not read of itself yet; and when it says so again.
    private var unsaid: Set<AccessSubject> = []
    private var saysAt: UInt64 = 0
    private let report: (AccessNews) -> Void
    /// Logs why the bucket is not followed.
    private let complain: (String) -> Void
    private var hasComplained = false
    private var follower: FollowedStream?
    /// Whether everything is to be read anew.
    private var isStale = false
    /// How many changes of the document are over. What is answered behind the end of one is about nothing any more.
    private var verdictCount = 0
    /// The number of the last entry that was read.
    private var sequence: UInt64 = 0
    private var isWhole = false
    /// What was read so far, until all is read.
    private var state = AccessState()
    private var document: SharedDocument
    /// Commands that are carried out once everything before was told.
    private var waiting: [(sequence: UInt64, token: UInt64)] = []
    private var trouble = "no server has answered yet"

    init(
        _ plan: ClusterPlan, node: NodeID, _ connection: NATSConnection, report: @escaping (AccessNews) -> Void,
        complain: @escaping (String) -> Void
    ) {
        name = "martlet_\(plan.name)_access"
        nodeDigest = BanEntry.digest(plan.nodeName)
        (self.node, self.plan, self.connection) = (node, plan, connection)
        (self.report, self.complain) = (report, complain)
        document = SharedDocument(node: node)
    }

    // MARK: The loop

    var nextDeadline: UInt64? {
        [follower?.nextDeadline, document.wakesAt, unsaid.isEmpty || !isWhole ? nil : saysAt].compactMap { $0 }.min()
    }

    private var now: UInt64 { connection.now }

    func advance() {
        follower?.advance(now: now)
        document.tick(now: now)
        perform()
        if now >= saysAt { sayJoined() }
        readAnew()
    }

    /// Begins to read, on a new connection.
    func begin() {
        isStale = true
        readAnew()
    }

    /// Takes note that the connection is gone, with all subscriptions on it.
    func end(_ reason: String) {
        follower?.detached()
        follower = nil
        isAway(reason)
    }

    /// Takes note that the bucket is not followed for now.
    private func isAway(_ reason: String) {
        (isWhole, trouble) = (false, reason)
        document.lost()
        // They are stored, and told when it is read anew.
        let stored = waiting
        waiting = []
        for command in stored { report(.banAnswer(token: command.token, nil)) }
    }

    /// Follows the bucket from its beginning: of each key there is the last entry alone, so that this is all.
    private func readAnew() {
        guard isStale, connection.isReady, let info = connection.session.info else { return }
        isStale = false
        follower?.detached()
        (sequence, state, isWhole) = (0, AccessState(), false)
        document.scanBegins()
        let follower = FollowedStream(
            name: "martlet-\(node)-access", from: 1, on: connection, give: { [unowned self] in give($0) },
            report: { [unowned self] in heard($0) })
        self.follower = follower
        follower.attached(plan.bucket(name, info), now: now)
    }

    private func heard(_ news: FollowedStream.News) {
        switch news {
        case .found:
            // Where it was followed already, deletions may have been missed, and what was there.
            guard sequence > 0 || isWhole else { return }
            isAway("the data that nodes share is being read again")
            isStale = true
        case .caughtUp: if !isStale { readAll() }
        case .failed(let reason):
            isAway(reason)
            hasComplained = true
            complain("users and bans are not shared: \(reason)")
        }
    }

    // MARK: What is read

    /// Takes a message of the connection; false if it belongs to another.
    func received(_ message: MessageView) -> Bool {
        guard let follower, follower.received(message, now: now) else { return false }
        perform()
        readAnew()
        return true
    }

    private func give(_ record: StreamRecord) {
        guard !isStale else { return }
        sequence = record.metadata.sequence
        let headers = record.headers.isEmpty ? nil : try? MessageHeaders(reading: record.headers)
        read(record, isDeleted: headers?["KV-Operation"] != nil)
        let carriedOut = waiting.filter { $0.sequence <= sequence }
        waiting.removeAll { $0.sequence <= sequence }
        for command in carriedOut { report(.banAnswer(token: command.token, nil)) }
    }

    private func read(_ message: StreamRecord, isDeleted: Bool) {
        guard message.subject.starts(with: prefix.utf8) else { return }
        let key = String(decoding: message.subject.dropFirst(prefix.utf8.count), as: UTF8.self)
        let payload = Array(message.payload)
        let words = key.split(separator: ".", maxSplits: 1).map { String($0) }
        switch (words.first, words.count) {
        case ("dynsec", 1): if !isDeleted { document.receivedHead(payload, number: sequence) }
        case ("dynsec", 2): if !isDeleted { document.receivedPart(words[1], payload) }
        case ("bans", 2):
            guard let entry = BanEntry(reading: payload, isLifted: isDeleted) else { return }
            if isWhole { report(.ban(entry)) } else if let ban = entry.ban { state.bans.append(ban) }
        case ("joined", 2):
            for subject in AccessSubject.allCases where !isDeleted && words[1] == "\(subject.rawValue).\(nodeDigest)" {
                state.joined.insert(subject)
                unsaid.remove(subject)
            }
        default: return
        }
    }

    /// Ends the reading: all that was there when it began was read.
    private func readAll() {
        guard !isWhole else { return }
        isWhole = true
        state.hasSecurity = document.revision != 0
        report(.whole(state))
        state = AccessState()
        document.scanEnds()
        guard hasComplained else { return }
        hasComplained = false
        complain("users and bans are shared again")
    }

    // MARK: What is written

    func received(_ command: AccessCommand) {
        switch command {
        case .security(let base, let pieces):
            guard isWhole else { return report(.verdict(.refused("the cluster cannot be reached: \(trouble)"))) }
            document.replace(base: base, with: pieces, now: now)
            perform()
        case .ban(let entry, let token):
            guard isWhole else { return report(.banAnswer(token: token, "the cluster cannot be reached: \(trouble)")) }
            var expectation = JetStreamRequest.Expectation()
            expectation.timeToLiveSeconds = entry.secondsToLive(at: WallClock.milliseconds())
            expectation.isDeletion = entry.ban == nil
            put(entry.key, entry.payload, expectation, .ban(token: token))
        case .joined(let subject):
            unsaid.insert(subject)
            sayJoined()
        }
    }

    /// Writes which subjects this node has brought, again and again until it reads that itself: a node that is not
    /// known to have brought its own would offer its copy as its own at the next start.
    private func sayJoined() {
        guard isWhole, !unsaid.isEmpty else { return }
        saysAt = now + Limits.accessAnswerMillisecondsMax
        for subject in AccessSubject.allCases where unsaid.contains(subject) {
            put("joined.\(subject.rawValue).\(nodeDigest)", [], JetStreamRequest.Expectation(), .unheeded)
        }
    }

    /// Carries out the document's effects, until there are none.
    private func perform() {
        while true {
            let effects = document.takeEffects()
            guard !effects.isEmpty else { return }
            for effect in effects {
                switch effect {
                case .putPart(let part, let bytes):
                    put("dynsec.\(part)", bytes, JetStreamRequest.Expectation(), .part(part))
                case .putHead(let bytes, let expected):
                    put("dynsec", bytes, JetStreamRequest.Expectation(lastSubjectSequence: expected), .head)
                case .deletePart(let part):
                    guard let subject = Subject("\(prefix)dynsec.\(part)") else { continue }
                    ask(.purge(subject, ofStream: "KV_\(name)"), .unheeded)
                case .document(let revision, let pieces): report(.security(revision: revision, pieces))
                case .verdict(let verdict):
                    verdictCount += 1
                    report(.verdict(verdict))
                }
            }
        }
    }

    private func put(_ key: String, _ payload: [UInt8], _ expectation: JetStreamRequest.Expectation, _ purpose: Request) {
        ask(Subject("\(prefix)\(key)").flatMap { .publish($0, expectation, payload: payload) }, purpose)
    }

    private func ask(_ request: JetStreamRequest?, _ purpose: Request) {
        guard let request else { return failed(purpose, "a name cannot be a subject's") }
        connection.request(request, within: Limits.accessAnswerMillisecondsMax) { [unowned self, verdictCount] answer in
            guard !purpose.isOfDocument || verdictCount == self.verdictCount else { return }
            answered(purpose, answer, byteCount: request.payload.count)
        }
    }

    /// Takes the answer to a request of so many bytes.
    private func answered(_ purpose: Request, _ answer: NATSAnswer, byteCount: Int) {
        switch answer {
        case .message(let message):
            do throws(JetStreamError) {
                let members = try JetStreamAnswer.members(message)
                stored(purpose, UInt64(clamping: members["seq"]?.integer ?? 0))
            } catch {
                // Another entry has come first: it is on its way here.
                if case .head = purpose, error.isConflict { return }
                if error.isPassing, !error.lacksRoom { unanswered(purpose) } else { failed(purpose, "JetStream: \(error)") }
            }
        case .nobody, .late, .lost: unanswered(purpose)
        case .unsent(.away): failed(purpose, "the cluster cannot be reached")
        case .unsent(.full): failed(purpose, "too many requests wait for the servers")
        case .unsent(.tooLarge(let bytesMax)):
            failed(purpose, "\(byteCount) bytes are more than the servers' max_payload (\(bytesMax))")
        }
        perform()
    }

    private func stored(_ purpose: Request, _ number: UInt64) {
        switch purpose {
        case .part(let part): document.partStored(part, now: now)
        case .ban(let token):
            if number <= sequence || !isWhole { report(.banAnswer(token: token, nil)) } else { waiting.append((number, token)) }
        case .head, .unheeded: return
        }
    }

    private func failed(_ purpose: Request, _ reason: String) {
        switch purpose {
        case .part, .head: document.failed(reason)
        case .ban(let token): report(.banAnswer(token: token, reason))
        case .unheeded: return
        }
    }

    private func unanswered(_ purpose: Request) {
        switch purpose {
        case .part, .head: document.unanswered()
        case .ban(let token):
            report(.banAnswer(token: token, "the servers have not confirmed it: check whether it was made before trying again"))
        case .unheeded: return
        }
    }

    private var prefix: String { "$KV.\(name)." }
}

extension Limits {
    /// Milliseconds that JetStream has to take what nodes share.
    static let accessAnswerMillisecondsMax: UInt64 = 3000
}
