import BrokerCore
import DynamicSecurity
import JSON
import MQTTCodec
import Platform
import Security

/// Performs messages of commands on dynamic security, one after the other, and brings to the loops what they change.
///
///     message ─► [passwords are hashed on a thread of their own] ─► [loops are asked who is connected] ─► performed and saved
///             ─► the answer leaves ─► letters to the loops: rights, and who has to go
///
/// Belongs to the control thread.
final class SecurityDesk {
    /// Who gives commands.
    struct Asker {
        var clientIdentifier: String
        var userName: String?
    }

    private struct Job {
        let request: SecurityRequest
        let keeper: SecurityKeeper
        let asker: Asker
        let answered: (SecurityKeeper.Answer, _ next: @escaping () -> Void) -> Void
        /// By their bytes: two spellings of one text are two passwords.
        var passwords: [[UInt8]: StoredPassword] = [:]
        var addresses: [EncodedString: [String]] = [:]
    }

    private let desk: BrokerDesk
    private let log: Log
    /// Tells all loops.
    private let tellLoops: (LoopLetter) -> Void
    /// Has the passwords hashed, away from this thread; `hashed` is called with what comes of it.
    private let hash: ([[UInt8]]) -> Void
    private var waiting: [Job] = []
    private var current: Job?

    init(
        _ desk: BrokerDesk, log: Log, tellLoops: @escaping (LoopLetter) -> Void, hash: @escaping ([[UInt8]]) -> Void
    ) {
        (self.desk, self.log, self.tellLoops, self.hash) = (desk, log, tellLoops, hash)
    }

    /// Performs a message when its turn has come.
    ///
    /// - Parameter answered: is given the answer, and calls what it gets when that has left. Nil if too many wait.
    func perform(
        _ request: SecurityRequest, on keeper: SecurityKeeper, for asker: Asker,
        _ answered: @escaping (SecurityKeeper.Answer, _ next: @escaping () -> Void) -> Void
    ) -> Bool {
        guard waiting.count < Limits.controlMessagesMax else { return false }
        waiting.append(Job(request: request, keeper: keeper, asker: asker, answered: answered))
        if current == nil { begin() }
        return true
    }

    private func begin() {
        guard !waiting.isEmpty else {
            current = nil
            return
        }
        let job = waiting.removeFirst()
        current = job
        let passwords = job.request.passwords
        if passwords.isEmpty { askForConnections() } else { hash(passwords) }
    }

    /// The passwords of the message that is being performed.
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
        guard shard < desk.shardCount else { return perform() }
        var selection = ClientSelection()
        selection.isConnected = true
        selection.userName = current?.request.onlyUser
        desk.ask(ShardQuery(.clients(selection), cursor: cursor, rowsMax: Limits.connectionRowsPerPage), of: shard) {
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
        let context = SecurityContext(
            clientIdentifier: job.asker.clientIdentifier, userName: job.asker.userName, hash: { job.passwords[Array($0.utf8)] },
            addresses: { job.addresses[$0] ?? [] })
        let answer = job.keeper.perform(job.request, context)
        for line in answer.lines { log.write(.information, line) }
        if let failure = answer.failure { log.write(.error, "Error: Dynamic security: \(failure).") }
        job.answered(answer) { [self] in
            for change in Self.letters(answer.changes) { tellLoops(.rights(change)) }
            begin()
        }
    }

    private static func letters(_ changes: SecurityChanges) -> [RightsChange] {
        var letters: [RightsChange] = []
        if changes.hasNewDefaults || !changes.renewed.isEmpty {
            letters.append(
                RightsChange(
                    users: changes.renewed.users, hasAnonymous: changes.renewed.hasAnonymous, hasEverybody: changes.hasNewDefaults,
                    kicks: false))
        }
        if !changes.kicked.isEmpty {
            letters.append(RightsChange(users: changes.kicked.users, hasAnonymous: changes.kicked.hasAnonymous, kicks: true))
        }
        return letters
    }
}
