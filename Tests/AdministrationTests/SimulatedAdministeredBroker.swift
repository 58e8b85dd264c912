import Administration
import BrokerCore
import BrokerModel
import BrokerSimulation
import HTTP
import JSON
import JSONReader
import MQTTCodec
import MartletTestKit

/// A simulated broker as its administration sees it: what is asked is answered at once.
final class SimulatedAdministeredBroker: AdministeredBroker {
    let broker: SimulatedBroker
    let wallClockOffset: UInt64 = 1_700_000_000_000
    var facts = BrokerFacts(version: "1.0.0", node: "test", startedAt: 1_700_001_000_000)
    var condition = BrokerCondition()
    let openFiles = 17
    let openFilesMax = 1024
    var storeFreeBytes: UInt64? = 5_000_000_000
    var listeners: [AdministeredListener] = []
    /// By name: what a login answers.
    var users: [String: (password: String, answer: AdministrationLogin.Answer)] = [:]
    var granted: Set<String> = []
    var configuration = ConfigurationReport()
    var findings: ConfigurationFindings?
    var logTopics: LogTopics = .standard
    var lines: [AdministeredLogLine] = []
    var auditLines: [String] = []
    var tokenText: String?
    var writesTokens = true
    /// Whether shards take questions.
    var answersQuestions = true

    init(_ broker: SimulatedBroker) {
        self.broker = broker
        condition.loopAges = Array(repeating: 5, count: broker.shardCount)
        var listener = AdministeredListener(name: "listener 1883", application: .mqtt)
        listener.port = 1883
        listeners = [listener]
    }

    var shardCount: Int { broker.shardCount }
    func shard(of clientIdentifier: EncodedString) -> Int { broker.shard(of: clientIdentifier) }
    func shard(of topic: TopicName) -> Int { broker.cores[0].placement.shard(of: topic) }

    func ask(_ query: ShardQuery, of shard: Int, _ done: @escaping (ShardReply?) -> Void) {
        done(answersQuestions ? broker.ask(query, of: shard) : nil)
    }

    func perform(_ command: ShardCommand, to shard: Int, _ done: @escaping (ShardCommandOutcome?) -> Void) {
        guard broker.cores[shard].perform(command) else { return done(nil) }
        broker.settle()
        done(broker.takeOutcomes(of: shard).last)
    }

    func statistics(_ done: @escaping ([ShardStatistics]) -> Void) { done(broker.cores.map { $0.measuredStatistics() }) }

    /// Whether logins are answered later, if ever.
    var holdsLogins = false
    /// The logins that nobody waits for any more.
    private(set) var abandonedLogins = 0

    func logIn(_ login: AdministrationLogin, _ done: @escaping (AdministrationLogin.Answer) -> Void) -> () -> Void {
        guard !holdsLogins else { return { [unowned self] in abandonedLogins += 1 } }
        let user = users[login.userName.description]
        done(user.map { Array($0.password.utf8) == login.password ? $0.answer : .refused } ?? .refused)
        return {}
    }

    func permits(
        _ user: EncodedString?, ofListener listener: Int, to access: AdministeredAccess, topic: TopicName
    ) -> AdministeredPermission {
        guard !granted.isEmpty else { return .unruled }
        return granted.contains("\(user?.description ?? "-") \(access) \(topic)") ? .granted : .denied
    }

    private(set) var isWatched = false
    private(set) var isLogWatched = false

    func watchClients(_ isWatched: Bool) {
        self.isWatched = isWatched
        for core in broker.cores { core.watchPresence(isWatched) }
    }

    /// Whether there is room for a trace's file, and how many bytes of it.
    var traceBytesMax: Int? = .max
    /// The shards whose traces were taken, in order.
    private(set) var tracesTaken: [Int] = []

    func makeTraceFile() -> (any TraceFile)? { traceBytesMax.map { MemoryTraceFile(bytesMax: $0) } }
    func tracesTaken(by shard: Int) { tracesTaken.append(shard) }

    func watchLog(_ isWatched: Bool) { isLogWatched = isWatched }

    private(set) var drain: DrainStatus?

    func beginDrain(_ request: DrainRequest) {
        drain = DrainStatus(request: request, since: 1_700_001_000_000, connectionsLeft: 1, isDone: false)
        drain?.serverReferences = request.serverReference.map { [$0] } ?? []
        condition.isListening = false
        let notice = DrainNotice(serverReference: request.serverReference.flatMap { EncodedString($0) })
        for core in broker.cores {
            core.drain(notice)
            core.sendAway(request.perSecond)
        }
        broker.settle()
    }

    func endDrain() {
        drain = nil
        condition.isListening = true
        for core in broker.cores { core.drain(nil) }
    }

    var bridges: [AdministeredBridge] = []
    var bridgesEndWithBroker = false
    /// What bridges were ordered to do, and what becomes of the next command.
    private(set) var bridgeCommands: [(name: String, command: BridgeCommand)] = []
    var bridgeOutcome = BridgeCommandOutcome.done(warnings: [])

    func perform(_ command: BridgeCommand, bridge name: String) -> BridgeCommandOutcome {
        bridgeCommands.append((name, command))
        guard case .done = bridgeOutcome else { return bridgeOutcome }
        switch command {
        case .add: bridges.append(AdministeredBridge(name: name))
        case .remove: bridges.removeAll { $0.name == name }
        case .change, .pause, .resume: break
        }
        return bridgeOutcome
    }

    /// The other nodes of its cluster; one without an administration does not answer.
    var otherNodes: [(name: String, administration: Administration?)] = []
    private(set) var nodeRequests: [NodeRequest] = []
    /// Bytes of the longest answer of another node.
    private(set) var nodeAnswerBytesMax = 0

    func askOtherNodes(_ request: NodeRequest, _ done: @escaping ([NodeResponse]) -> Void) {
        nodeRequests.append(request)
        var responses: [NodeResponse] = []
        for (name, administration) in otherNodes {
            var response = NodeResponse(node: name, status: nil, body: [])
            administration?.answer(request, clock: { Moment(milliseconds: 5_000_000, wallMilliseconds: 1_700_005_000_000) }) {
                (response.status, response.body) = ($0, $1)
            }
            nodeAnswerBytesMax = max(nodeAnswerBytesMax, response.body.count)
            responses.append(response)
        }
        done(responses)
    }

    private(set) var bans = BanList()
    private(set) var bansMade: [BanKind: Int] = [:]
    var bansEndWithBroker = false

    /// Why bans cannot be shared; nil if they can.
    var banTrouble: String?

    /// Adds one that nobody is told of.
    func add(_ ban: Ban) -> Bool { bans.add(ban) }

    func ban(_ ban: Ban, _ done: @escaping (String?) -> Void) -> Bool {
        if let banTrouble {
            done(banTrouble)
            return true
        }
        guard bans.add(ban) else { return false }
        bansMade[ban.target.kind, default: 0] += 1
        spread(done)
        return true
    }

    func liftBan(_ target: BanTarget, by who: String, _ done: @escaping (String?) -> Void) -> Bool {
        guard bans[target] != nil else { return false }
        if let banTrouble {
            done(banTrouble)
            return true
        }
        bans.remove(target)
        spread(done)
        return true
    }

    private func spread(_ done: (String?) -> Void) {
        for core in broker.cores { core.apply(bans) }
        broker.settle()
        done(nil)
    }

    func checkConfiguration() -> ConfigurationFindings? { findings }
    func reloadConfiguration(_ done: @escaping (ConfigurationFindings?) -> Void) { done(findings) }
    func logLines(_ countMax: Int) -> [AdministeredLogLine] { Array(lines.suffix(countMax)) }
    /// What dynamic security answers; nil for none.
    var securityAnswer: SecurityCommandsAnswer = .notConfigured

    func performSecurityCommands(
        _ payload: [UInt8], for who: String, from origin: RequestOrigin, _ done: @escaping (SecurityCommandsAnswer) -> Void
    ) { done(securityAnswer) }

    var files = AdministeredFiles()
    /// What files were changed, and what becomes of the next change.
    private(set) var fileChanges: [(path: String, change: FileChange)] = []
    var fileOutcome = FileChangeOutcome.done(line: nil)
    private(set) var questions: [AccessQuestion] = []
    var accessAnswer = AccessAnswer(explanation: nil, ban: nil, isKnownUser: nil, admitsAnonymous: true)
    /// Pages that have opened a WebSocket.
    private(set) var pages: [HTTPStream] = []

    func change(_ path: String, _ change: FileChange, _ done: @escaping (FileChangeOutcome) -> Void) {
        fileChanges.append((path, change))
        done(fileOutcome)
    }

    func answer(to question: AccessQuestion) -> AccessAnswer {
        questions.append(question)
        var answer = accessAnswer
        (answer.client.userName, answer.client.clientIdentifier) = (question.userName, question.clientIdentifier)
        return answer
    }

    /// The logins that were to be explained, and what is said of the next one.
    private(set) var trials: [LoginTrial] = []
    var loginReport: LoginTrialReport? = LoginTrialReport(.refused)

    func explain(_ trial: LoginTrial, _ done: @escaping (LoginTrialReport?) -> Void) -> () -> Void {
        trials.append(trial)
        done(loginReport)
        return {}
    }

    func openWebSocket(_ request: HTTPRequest, from origin: RequestOrigin, output: HTTPStream) -> HTTPResponse {
        pages.append(output)
        return HTTPResponse(.switchingProtocols, body: .upgraded(output) { _ in })
    }

    /// The lines of the log about alarms, and how many of each kind there are.
    private(set) var alarmLines: [String] = []
    private(set) var alarmCounts: [AlarmKind: Int] = [:]

    func report(_ changes: [AlarmChange], counts: [(kind: AlarmKind, count: Int)]) {
        alarmLines += changes.map(\.text)
        alarmCounts = Dictionary(uniqueKeysWithValues: counts.map { ($0.kind, $0.count) })
    }

    func audit(_ line: String) { auditLines.append(line) }

    func writeTokens(_ text: String) -> Bool {
        if writesTokens { tokenText = text }
        return writesTokens
    }
}

/// A trace's file in memory.
final class MemoryTraceFile: TraceFile {
    private var written: [UInt8] = []
    private let bytesMax: Int

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    func append(_ bytes: [UInt8]) -> Bool {
        guard written.count + bytes.count <= bytesMax else { return false }
        written += bytes
        return true
    }

    func bytes(from offset: Int, count: Int) -> [UInt8] { Array(written.dropFirst(offset).prefix(count)) }
}

/// An administration of a simulated broker, and who talks to it.
final class AdministrationHouse {
    let simulation: SimulatedBroker
    let broker: SimulatedAdministeredBroker
    let administration: Administration
    /// On the clock that only goes forwards.
    var now: UInt64 = 5_000_000
    var origin = RequestOrigin(address: "198.51.100.7", listener: 0)
    /// The fields of every request that names none of its own.
    var fields: HTTPFields = [:]

    init(
        shards: Int = 1, role: AdministrationRole? = .admin, settings: BrokerSettings = SimulatedBroker.testSettings,
        seed: UInt64 = 1, store: SimulatedStore? = nil
    ) {
        simulation = SimulatedBroker(shards: shards, settings: settings, seed: seed, store: store)
        broker = SimulatedAdministeredBroker(simulation)
        var settings = AdministrationSettings()
        var listener = AdministrationSettings.Listener()
        listener.anonymousRole = role
        settings.listeners[0] = listener
        settings.keepsTokens = true
        administration = Administration(broker: broker, settings: settings)
        simulation.traced = { [unowned self] in administration.record($0, at: moment) }
    }

    deinit { simulation.powerOff() }

    func configure(_ change: (inout AdministrationSettings) -> Void) {
        var settings = administration.settings
        change(&settings)
        administration.apply(settings, tokens: TokenTable())
    }

    static let api = "/api/martlet/v1"

    /// Sends a request and takes the answer.
    func send(_ method: HTTPMethod, _ path: String, _ body: String? = nil, fields: HTTPFields? = nil, host: String = "localhost")
        -> Answer
    {
        var fields = fields ?? self.fields
        if body != nil, fields["Content-Type"] == nil { fields["Content-Type"] = "application/json" }
        let target = path.hasPrefix("/") ? path : Self.api + "/" + path
        guard let request = HTTPRequest(method, target, fields: fields, body: body.map { Array($0.utf8) }, host: host) else {
            preconditionFailure("no request: \(target)")
        }
        var answer: HTTPResponse?
        administration.handle(request, from: origin, clock: { [self] in moment }, { answer = $0 })
        guard let answer else { preconditionFailure("no answer to \(target)") }
        return Answer(answer)
    }

    func get(_ path: String) -> Answer { send(.get, path) }

    var moment: Moment { Moment(milliseconds: now, wallMilliseconds: now + broker.wallClockOffset) }
}

/// An answer, and what is in it.
struct Answer {
    let status: Int
    let fields: HTTPFields
    let body: String
    let response: HTTPResponse

    init(_ response: HTTPResponse) {
        self.response = response
        (status, fields) = (response.status.rawValue, response.fields)
        body = String(decoding: response.bytes ?? [], as: UTF8.self)
    }

    /// Of a body that is JSON.
    var json: JSONValue? { try? JSONValue(reading: Array(body.utf8)) }
    var object: JSONMembers? { json?.object }
    var code: String? { object?["code"]?.string }
    /// The rows of a list.
    var rows: [JSONMembers] { object?["data"]?.array?.compactMap(\.object) ?? [] }
    var cursor: String? { object?["meta"]?.object?["cursor"]?.string }

    /// A member of every row.
    func column(_ name: String) -> [String] { rows.map { $0[name]?.string ?? "-" } }
}
