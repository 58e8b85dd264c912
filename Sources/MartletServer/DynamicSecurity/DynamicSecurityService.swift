import BrokerCore
import BrokerModel
import Cluster
import Configuration
import JSON
import MQTTCodec
import Platform
import Security
import ServerLoops

/// Performs messages of commands on dynamic security, one after the other, and brings to the loops what they change.
///
///     message ─► [passwords are hashed on a thread of their own] ─► [loops are asked who is connected] ─► performed and saved
///             ─► the answer leaves ─► messages to the loops: rights, and who has to go
///
/// In a cluster it is performed on what all nodes share, and counts when that has taken it; if another node was
/// quicker, it is performed again on what that one has made of it:
///
///     performed ─► [the cluster] ─► stored: saved, the answer leaves, messages
///         ▲            └─► conflict, the newer one is taken over: saved, messages ─┐
///         └───────────────────────────────────────────────────────────────────────┘
///
/// Belongs to the control thread.
final class DynamicSecurityService {
    /// The administrator or client that gives commands.
    struct Asker {
        var clientIdentifier: String
        var userName: String?
    }

    private struct Job {
        let request: SecurityRequest
        let document: SecurityDocument
        let asker: Asker
        let answered: (SecurityDocument.Answer, _ next: @escaping () -> Void) -> Void
        /// By their bytes: two spellings of one text are two passwords.
        var passwords: [[UInt8]: StoredPassword] = [:]
        var addresses: [EncodedString: [String]] = [:]
        /// How often it was performed.
        var attempts = 0
    }

    private let brokerClient: BrokerClient
    private let log: Log
    /// Tells all loops.
    private let sendToLoops: (LoopMessage) -> Void
    /// Has the passwords hashed, away from this thread; `hashed` is called with what comes of it.
    private let hash: ([[UInt8]]) -> Void
    private var waiting: [Job] = []
    private var current: Job?
    /// What the nodes of a cluster share; nil on a broker that is alone, or without dynamic security.
    private var shared: SharedSecurity?
    /// Whether the current message waits for what the nodes share.
    private var isHeld = false

    init(
        _ brokerClient: BrokerClient, log: Log, sendToLoops: @escaping (LoopMessage) -> Void, hash: @escaping ([[UInt8]]) -> Void
    ) {
        (self.brokerClient, self.log, self.sendToLoops, self.hash) = (brokerClient, log, sendToLoops, hash)
    }

    /// Hashes passwords on a thread of their own, as the configuration says, and tells the control thread.
    static func hashing(
        by configuration: RunningConfiguration, to mailbox: Mailbox<ControlLoopMessage>
    ) -> ([[UInt8]]) -> Void {
        { passwords in
            let hash = SecurityDocuments.hashing(configuration.value.general)
            @Sendable func make() {
                let pairs = passwords.compactMap { password in
                    hash(String(decoding: password, as: UTF8.self)).map { (password, $0) }
                }
                mailbox.post(.hashed(Dictionary(pairs) { first, _ in first }))
            }
            do throws(SystemError) {
                // It ends by itself; nobody waits for it.
                _ = try NamedThread.start(name: "martlet-hash") { make() }
            } catch {
                make()
            }
        }
    }

    /// Performs a message when its turn has come.
    ///
    /// - Parameter answered: is given the answer, and calls what it gets when that has left. Nil if too many wait.
    func perform(
        _ request: SecurityRequest, on document: SecurityDocument, for asker: Asker,
        _ answered: @escaping (SecurityDocument.Answer, _ next: @escaping () -> Void) -> Void
    ) -> Bool {
        guard waiting.count < Limits.controlMessagesMax else { return false }
        waiting.append(Job(request: request, document: document, asker: asker, answered: answered))
        if current == nil { begin() }
        return true
    }

    private func begin() {
        current = nil
        guard !waiting.isEmpty else { return }
        let job = waiting.removeFirst()
        current = job
        let passwords = job.request.passwords
        if passwords.isEmpty { askForConnections() } else { hash(passwords) }
    }

    /// Goes on with the message that is being performed, with the hashes of its passwords.
    func hashed(_ passwords: [[UInt8]: StoredPassword]) {
        current?.passwords = passwords
        askForConnections()
    }

    private func askForConnections() {
        guard let job = current else { return }
        guard job.request.asksForConnections else { return perform() }
        askForConnections(ofShard: 0, from: nil)
    }

    /// Reads all that are connected, page by page and shard by shard.
    private func askForConnections(ofShard shard: Int, from cursor: ShardCursor?) {
        guard shard < brokerClient.shardCount else { return perform() }
        var selection = ClientSelection()
        selection.isConnected = true
        selection.userName = current?.request.onlyUser
        brokerClient.ask(ShardQuery(.clients(selection), cursor: cursor, rowsMax: Limits.connectionRowsPerPage), of: shard) {
            [self] reply in
            guard let reply, case .clients(let rows) = reply.rows else { return perform() }
            for row in rows {
                guard let user = row.userName, let connection = row.connection else { continue }
                current?.addresses[user, default: []].append(connection.address)
            }
            if let next = reply.next {
                askForConnections(ofShard: shard, from: next)
            } else {
                askForConnections(ofShard: shard + 1, from: nil)
            }
        }
    }

    private func perform() {
        guard let job = current else { return }
        // A file that a reload has brought is not shared, until the next start.
        let shared = shared.flatMap { $0.isOf(job.document) ? $0 : nil }
        isHeld = shared?.isBusy ?? false
        guard !isHeld else { return }
        let context = SecurityContext(
            clientIdentifier: job.asker.clientIdentifier, userName: job.asker.userName, hash: { job.passwords[Array($0.utf8)] },
            addresses: { job.addresses[$0] ?? [] })
        guard shared != nil else { return finish(job, job.document.perform(job.request, context)) }
        let proposal = job.document.propose(job.request, context)
        guard !proposal.isEmpty else { return finish(job, proposal.answer()) }
        current?.attempts += 1
        shared?.propose(proposal)
    }

    private func finish(_ job: Job, _ answer: SecurityDocument.Answer) {
        for line in answer.lines { log.write(.information, line) }
        if let failure = answer.failure { log.write(.error, "Error: Dynamic security: \(failure).") }
        job.answered(answer) { [self] in
            sendToLoops(of: answer.changes)
            begin()
        }
    }

    func sendToLoops(of changes: SecurityChanges) {
        for change in Self.messages(changes) { sendToLoops(.rights(change)) }
    }

    private static func messages(_ changes: SecurityChanges) -> [RightsChange] {
        var messages: [RightsChange] = []
        if changes.hasNewDefaults || !changes.renewed.isEmpty || changes.concernsMembers {
            messages.append(
                RightsChange(
                    users: changes.renewed.users, hasAnonymous: changes.renewed.hasAnonymous, hasEverybody: changes.hasNewDefaults,
                    hasMembers: changes.concernsMembers,
                    kicks: false))
        }
        if !changes.kicked.isEmpty {
            messages.append(RightsChange(users: changes.kicked.users, hasAnonymous: changes.kicked.hasAnonymous, kicks: true))
        }
        return messages
    }
}

// MARK: - In a cluster

extension DynamicSecurityService {
    /// Shares dynamic security with the other nodes.
    func share(_ shared: SharedSecurity) { self.shared = shared }

    /// Takes note that all that the nodes share has been read.
    func received(_ state: AccessState) { shared?.received(state) }

    /// Takes dynamic security as another node has changed it.
    func received(revision: UInt64, _ pieces: [[UInt8]]) { shared?.received(revision: revision, pieces) }

    /// Takes what was read of another node's change.
    func read(_ model: Result<SecurityModel, SecurityFile.Complaint>) {
        shared?.loaded(model)
        goOn()
    }

    /// Takes the cluster's verdict on the change that was proposed last.
    func received(_ verdict: DocumentVerdict) {
        guard let shared else { return }
        guard let job = current, let proposal = shared.proposal else {
            shared.offered(verdict)
            return goOn()
        }
        switch shared.decided(verdict, attempts: job.attempts) {
        case .made:
            let (answer, complaint) = job.document.make(proposal)
            if let complaint { log.write(.error, "Error: Dynamic security is changed, and not saved: \(complaint).") }
            finish(job, answer)
        case .again: perform()
        case .refused(let reason): finish(job, proposal.answer(failure: "Nothing was changed: \(reason)"))
        }
    }

    /// Performs the messages that have waited for the cluster.
    private func goOn() {
        guard isHeld, shared?.isBusy != true else { return }
        perform()
    }
}

extension Limits {
    /// Messages of commands that wait for the one that is performed; one more is not taken.
    /// Bytes: 16 MiB a loop, `unansweredBytesMax` of BrokerCore.
    static let controlMessagesMax = 1000

    /// Clients whose addresses are read at a time.
    static let connectionRowsPerPage = 1000
}
