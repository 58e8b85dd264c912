public import BrokerModel
public import HTTP
public import MQTTCodec

/// The broker as its administration sees it. All calls are made on the thread that serves HTTP, the control thread, and
/// all completions are called there, once, at once or later.
public protocol AdministeredBroker: AnyObject {
    /// How many shards there are; they are numbered from 0.
    var shardCount: Int { get }
    /// The shard that a client of this identifier lives on.
    func shard(of clientIdentifier: EncodedString) -> Int
    /// The shard that a topic's retained message is kept on.
    func shard(of topic: TopicName) -> Int
    /// Asks a shard. Nil: too many questions wait, or the broker ends.
    func ask(_ query: ShardQuery, of shard: Int, _ done: @escaping (ShardReply?) -> Void)
    /// Gives a shard a command. Nil: too many wait, or the broker ends.
    func perform(_ command: ShardCommand, to shard: Int, _ done: @escaping (ShardCommandOutcome?) -> Void)
    /// What every shard has counted, in the order of the shards; empty when the broker ends.
    func statistics(_ done: @escaping ([ShardStatistics]) -> Void)

    /// Has the shards tell of what happens to their clients, or no more; whoever owns the administration hands it on.
    func watchClients(_ isWatched: Bool)
    /// Has the log hand on its lines as they come, or no more; whoever owns the administration tells it of them.
    func watchLog(_ isWatched: Bool)

    /// Makes a file for a trace; nil, and the log says why, if that cannot be done.
    func makeTraceFile() -> (any TraceFile)?
    /// What a shard has recorded is written down: it may bring more.
    func tracesTaken(by shard: Int)

    /// What the shards' clock lacks of the milliseconds since 1970.
    var wallClockOffset: UInt64 { get }
    /// What does not change while the broker runs.
    var facts: BrokerFacts { get }
    var condition: BrokerCondition { get }
    /// Files and sockets that the process has open. Takes as long as there are many.
    var openFiles: Int { get }
    /// How many it may have open.
    var openFilesMax: Int { get }
    /// Bytes that are free where the store is; nil without a store, or if nobody knows.
    var storeFreeBytes: UInt64? { get }
    /// In the order of the configuration: a shard's number of a listener is its index here.
    var listeners: [AdministeredListener] { get }

    /// Checks a name and password as the listener's own login does, with the delays of clients that keep failing.
    ///
    /// - Parameters:
    ///   - login: who wants to log in.
    ///   - done: is told what came of it.
    /// - Returns: what to call when nobody waits for the answer any more: then `done` is not called, and nothing is
    ///   hashed for it.
    func logIn(_ login: AdministrationLogin, _ done: @escaping (AdministrationLogin.Answer) -> Void) -> () -> Void
    /// Whether the rules of a listener let a user read or write a topic; nil for somebody without a name.
    func permits(
        _ user: EncodedString?, ofListener listener: Int, to access: AdministeredAccess,
        topic: TopicName
    ) -> AdministeredPermission

    /// Performs a message of commands on dynamic security, as one on `$CONTROL/dynamic-security/v1` is.
    ///
    /// - Parameters:
    ///   - payload: JSON, `{"commands":[…]}`.
    ///   - who: who asks, as the log and the audit call them.
    ///   - origin: who asks, and through which listener: that listener's dynamic security is meant, or else the first
    ///     that there is.
    ///   - done: is told what has become of them.
    func performSecurityCommands(
        _ payload: [UInt8], for who: String, from origin: RequestOrigin, _ done: @escaping (SecurityCommandsAnswer) -> Void)

    /// The users and rules of files, read now.
    var files: AdministeredFiles { get }
    /// Changes a file, puts it in force and then says so; `path` is one of `files`.
    func change(_ path: String, _ change: FileChange, _ done: @escaping (FileChangeOutcome) -> Void)
    /// Whether somebody may do something, by what is in force.
    func answer(to question: AccessQuestion) -> AccessAnswer
    /// Has the sources of logins say what they think of a login, one after the other until one decides. Nobody is let
    /// in, and no failure is counted.
    ///
    /// - Parameters:
    ///   - trial: the login.
    ///   - done: is given what they have said; nil while as many are being tried as may be.
    /// - Returns: what to call when nobody waits for the answer any more.
    func explain(_ trial: LoginTrial, _ done: @escaping (LoginTrialReport?) -> Void) -> () -> Void

    /// Lets a page of the dashboard speak MQTT on its connection of HTTP, as an administrator whom no rule binds.
    ///
    /// - Parameters:
    ///   - request: what the page asks for, a WebSocket.
    ///   - origin: who asks.
    ///   - output: takes what goes to the page; when it is gone, so is the client.
    /// - Returns: the answer, which switches protocols, or says why not.
    func openWebSocket(_ request: HTTPRequest, from origin: RequestOrigin, output: HTTPStream) -> HTTPResponse

    /// The configuration in force.
    var configuration: ConfigurationReport { get }
    /// Reads the configuration's files without using them; nil where there are none.
    func checkConfiguration() -> ConfigurationFindings?
    /// Reads them and goes on as they say, unless they have errors; nil where there are none, or while another reload
    /// is under way. Called when every loop goes by them.
    func reloadConfiguration(_ done: @escaping (ConfigurationFindings?) -> Void)

    /// The bridges to other brokers, in the order of their names, as they were a moment ago.
    var bridges: [AdministeredBridge] { get }
    /// Whether bridges that administrators add, and pauses, end with the broker, for it has no store.
    var bridgesEndWithBroker: Bool { get }
    /// Does what an administrator wants of the bridge of this name; `bridges` tells at once of bridges that come and
    /// go, and a moment later of states.
    func perform(_ command: BridgeCommand, bridge name: String) -> BridgeCommandOutcome

    /// The bans that hold.
    var bans: BanList { get }
    /// How many bans were made since the start, by administrators and by the broker.
    var bansMade: [BanKind: Int] { get }
    /// Whether bans end with the broker, for it has no store.
    var bansEndWithBroker: Bool { get }
    /// Bans somebody, or does so anew; false if there are as many bans as may be. `done` is called when nobody of them
    /// is let in any more; who is connected is disconnected soon. It is given the reason why nobody is banned, nil if
    /// they are.
    func ban(_ ban: Ban, _ done: @escaping (String?) -> Void) -> Bool
    /// Lifts a ban; false if there is none, and then `done` is not called.
    func liftBan(_ target: BanTarget, by who: String, _ done: @escaping (String?) -> Void) -> Bool

    /// How far sending the clients away is; nil while they are let in.
    var drain: DrainStatus? { get }
    /// Lets nobody in any more and sends the clients away, or goes on with that in another way.
    func beginDrain(_ request: DrainRequest)
    /// Lets clients in again.
    func endDrain()

    /// Asks all other nodes of the cluster the same; called when all have answered, or had their time.
    func askOtherNodes(_ request: NodeRequest, _ done: @escaping ([NodeResponse]) -> Void)

    /// Alarms are raised or cleared.
    ///
    /// - Parameters:
    ///   - changes: for the log.
    ///   - counts: how many of each kind are raised now, for `$SYS`.
    func report(_ changes: [AlarmChange], counts: [(kind: AlarmKind, count: Int)])

    /// Which lines are logged; a reload sets it anew.
    var logTopics: LogTopics { get set }
    /// The last lines of the log, oldest first, at most so many.
    func logLines(_ countMax: Int) -> [AdministeredLogLine]
    /// Writes a line of the audit: to its own file, or else to the log.
    func audit(_ line: String)
    /// Puts a text in the place of the file of tokens, which only the broker may read; false if it could not be
    /// written.
    func writeTokens(_ text: String) -> Bool
}

/// What has become of commands on dynamic security.
public enum SecurityCommandsAnswer: Sendable {
    /// They were performed, or say why not: JSON, `{"responses":[…]}`.
    ///
    /// - Parameter changes: what was changed, for the audit; empty for nothing.
    case performed([UInt8], changes: String)
    /// The configuration has no dynamic security.
    case notConfigured
    /// Too many wait.
    case busy
}

/// What a client of the administration wants to do with a topic.
public enum AdministeredAccess: Sendable {
    case read
    case write
}

/// What access rules say.
public enum AdministeredPermission: Sendable {
    case granted
    case denied
    /// There are no rules.
    case unruled
}

/// The login that somebody wants over HTTP.
public struct AdministrationLogin: Sendable {
    public enum Answer: Sendable {
        /// - Parameter userName: under which the user is known to access rules.
        case accepted(userName: EncodedString)
        case refused
        /// Nobody can say now.
        case unavailable
    }

    public var userName: EncodedString
    public var password: [UInt8]
    /// The listener whose login decides: an index into the broker's listeners.
    public var listener: Int
    /// Of the peer, without its port.
    public var address: String

    public init(userName: EncodedString, password: [UInt8], listener: Int, address: String) {
        (self.userName, self.password, self.listener, self.address) = (
            userName, password, listener, address
        )
    }
}

/// How clients are to be sent away.
public struct DrainRequest: Sendable, Equatable {
    /// Where they are to go instead, as 5.0's Server Reference; nil for the other nodes of the cluster, or nowhere in
    /// particular.
    public var serverReference: String?
    /// How many a second, all loops together.
    public var perSecond: Int
    /// Whether the broker ends when all have gone.
    public var stops: Bool

    public init(serverReference: String? = nil, perSecond: Int, stops: Bool) {
        (self.serverReference, self.perSecond, self.stops) = (serverReference, perSecond, stops)
    }
}

/// How far that is.
public struct DrainStatus: Sendable, Equatable {
    public var request: DrainRequest
    /// When it began, in milliseconds since 1970.
    public var since: UInt64
    /// Connections that are still there.
    public var connectionsLeft: Int
    /// Whether all have gone; nobody is let in all the same.
    public var isDone: Bool
    /// Where clients are sent: as the request says, or the other nodes of the cluster.
    public var serverReferences: [String] = []

    public init(request: DrainRequest, since: UInt64, connectionsLeft: Int, isDone: Bool) {
        (self.request, self.since, self.connectionsLeft, self.isDone) = (request, since, connectionsLeft, isDone)
    }
}

/// The users of `password_file` and the rules of `acl_file`, as they stand on the disk now.
public struct AdministeredFiles: Sendable {
    /// A file, and the listeners that go by it.
    public struct File: Sendable {
        public let path: String
        public let listeners: [String]
        /// Why it cannot be read; nil if it can.
        public let trouble: String?

        public init(path: String, listeners: [String], trouble: String? = nil) {
            (self.path, self.listeners, self.trouble) = (path, listeners, trouble)
        }
    }

    public struct User: Sendable {
        public let name: String
        public let file: String
        public let line: Int
        /// The kind of hash that is kept of the password, never the hash.
        public let scheme: String

        public init(name: String, file: String, line: Int, scheme: String) {
            (self.name, self.file, self.line, self.scheme) = (name, file, line, scheme)
        }
    }

    /// The users that a rule is for.
    public enum Subject: Sendable, Equatable {
        /// Clients without a user name.
        case anonymous
        case user(String)
        /// A pattern: everybody.
        case everybody
    }

    public struct Rule: Sendable {
        public let file: String
        public let line: Int
        /// The line as it stands.
        public let text: String
        public let subject: Subject
        public let access: String
        /// What it asks beside the topic, as `qos<=1,from=10.0.0.0/8`; empty for nothing.
        public let conditions: String
        public let topic: String

        public init(
            file: String, line: Int, text: String, subject: Subject, access: String, conditions: String = "", topic: String
        ) {
            (self.file, self.line, self.text) = (file, line, text)
            (self.subject, self.access, self.conditions, self.topic) = (subject, access, conditions, topic)
        }
    }

    public var userFiles: [File] = []
    public var users: [User] = []
    public var ruleFiles: [File] = []
    public var rules: [Rule] = []

    public init() {}

    /// What a rule may say.
    public static let accesses = ["read", "write", "readwrite", "deny"]
}

/// A change of one of the files.
public enum FileChange: Sendable {
    /// - Parameter isNew: whether there may be no such user yet; else there has to be one.
    case setPassword(user: String, password: [UInt8], isNew: Bool)
    case removeUser(String)
    case addRule(AdministeredFiles.Subject, access: String, conditions: String = "", topic: String)
    /// - Parameter text: what stands in the line, so that nobody changes another rule than they have seen.
    case changeRule(line: Int, text: String, access: String, conditions: String = "", topic: String)
    case removeRule(line: Int, text: String)
}

/// What has become of a change.
public enum FileChangeOutcome: Sendable, Equatable {
    /// The change is in the file, and every loop goes by it. Of a rule that was added, its line.
    case done(line: Int?)
    case exists
    case missing
    /// Another text stands in the line.
    case moved
    /// The file would not be what the broker reads.
    case illegal(String)
    /// The file cannot be read or written, or no hash be made.
    case failed(String)
}

/// A login that an administrator wants to have explained.
public struct LoginTrial: Sendable {
    /// As CONNECT would give them; nil for none.
    public var userName: EncodedString?
    public var password: [UInt8]?
    public var clientIdentifier: EncodedString
    /// Where the client would come from.
    public var address: String
    /// An index into the broker's listeners.
    public var listener: Int
    /// The certificate that the client would show, as text: a PEM file, or what stands in one; nil for none.
    public var certificate: String?
    /// What the client would do when it is in; nil to ask for the login alone. Who it is stands above.
    public var question: AccessQuestion?

    public init(userName: EncodedString?, password: [UInt8]?, clientIdentifier: EncodedString, address: String, listener: Int) {
        (self.userName, self.password, self.clientIdentifier) = (userName, password, clientIdentifier)
        (self.address, self.listener) = (address, listener)
    }
}

/// What the sources of logins have said of a login.
public struct LoginTrialReport: Sendable {
    /// What a client would be told.
    public enum Result: String, Sendable, CaseIterable {
        case allowed
        case refused
        /// A source that might know the user cannot be asked.
        case unavailable
        case busy
    }

    /// One source's answer.
    public struct Step: Sendable {
        public enum Answer: String, Sendable, CaseIterable {
            case allowed
            case refused
            case unknown
            case failed
            case busy
        }

        public var source: String
        public var answer: Answer
        /// Why, as a part of a sentence; empty for nothing.
        public var words: String
        public var microseconds: UInt64

        public init(source: String, answer: Answer, words: String, microseconds: UInt64) {
            (self.source, self.answer, self.words, self.microseconds) = (source, answer, words, microseconds)
        }
    }

    public var result: Result
    /// Why, as a part of a sentence; empty where there is nothing to say.
    public var words = ""
    /// The source that has decided; nil where none knew the user, or nobody is asked.
    public var source: String?
    /// The user that the client would be.
    public var userName: EncodedString?
    /// Whether no rule would bind it.
    public var isSuperuser = false
    /// Whether the login brings rules along, which are asked before the listener's.
    public var hasRules = false
    /// When the connection would end, in milliseconds since 1970; nil for never.
    public var expiresAt: UInt64?
    /// What else the login and the certificate say of the client, for rules.
    public var attributes: [(name: String, value: String)] = []
    /// The groups and roles that it has by its certificate.
    public var memberships = AccessMemberships()
    /// Whether it may do what was asked for; nil where nothing was, or it is not let in.
    public var access: AccessAnswer?
    /// In the order in which they were asked.
    public var steps: [Step] = []

    public init(_ result: Result) { self.result = result }
}

/// Whether somebody may do something: what is asked.
public struct AccessQuestion: Sendable {
    public var userName: EncodedString?
    /// Nil for one that is as good as any other.
    public var clientIdentifier: EncodedString?
    public var address: String?
    /// The certificate that it would show, as text: a PEM file, or what stands in one; nil for none.
    public var certificate: String?
    /// Groups and roles of dynamic security that it has beside those of its user and its certificate.
    public var memberships = AccessMemberships()
    /// What its login would say of the client.
    public var attributes: [(name: String, value: String)] = []
    /// Of what QoS the message would be that it publishes, or which QoS it would ask for; nil for any.
    public var qos: QoS?
    /// Whether the message that it publishes would be retained; nil for either.
    public var retain: Bool?
    public var action: AccessAction
    /// Without wildcards, but of a subscription.
    public var topic: TopicFilter
    /// An index into the broker's listeners.
    public var listener: Int

    public init(
        userName: EncodedString?, clientIdentifier: EncodedString?, address: String?, action: AccessAction,
        topic: TopicFilter, listener: Int
    ) {
        (self.userName, self.clientIdentifier, self.address) = (userName, clientIdentifier, address)
        (self.action, self.topic, self.listener) = (action, topic, listener)
    }

    /// The messages that it may be about, by QoS and RETAIN.
    public var messages: AccessPermission {
        .messages(
            qos: qos.map { [$0] } ?? [.atMostOnce, .atLeastOnce, .exactlyOnce], retain: retain.map { [$0] } ?? [true, false])
    }
}

/// Who a client is that was asked about, when its certificate has been looked at too.
public struct AskedClient: Sendable {
    public var userName: EncodedString?
    /// Nil where none was given, by whom the certificate does not say.
    public var clientIdentifier: EncodedString?
    /// Groups and roles that it has beside those of its user.
    public var memberships = AccessMemberships()
    public var attributes: [(name: String, value: String)] = []
    /// What stands before its topics inside the broker; empty for nothing.
    public var mountPoint = ""
    /// Why it would not be let in, as a part of a sentence; nil where nothing speaks against it.
    public var objection: String?

    public init(userName: EncodedString?, clientIdentifier: EncodedString?) {
        (self.userName, self.clientIdentifier) = (userName, clientIdentifier)
    }
}

/// Whether somebody may do something, and what decides it.
public struct AccessAnswer: Sendable {
    /// Of whom that holds.
    public var client = AskedClient(userName: nil, clientIdentifier: nil)
    /// Whether no rule binds the client: its login says so.
    public var isSuperuser = false
    /// Whether a login may bring rules along, which are not among those that were asked.
    public var leavesLoginRulesOut = false
    /// The source of logins that is asked about each topic that no rule grants; nil for none.
    public var authority: String?
    /// Nil: the listener has no rules, so that everybody may do everything.
    public var explanation: AccessExplanation?
    /// What somebody is kept out by who would ask; nil if they are let in as far as that.
    public var ban: Ban?
    /// Whether the listener knows a user of that name; nil where it asks for no password, or none was named.
    public var isKnownUser: Bool?
    /// Whether clients without a user name are let in.
    public var admitsAnonymous: Bool

    public init(explanation: AccessExplanation?, ban: Ban?, isKnownUser: Bool?, admitsAnonymous: Bool) {
        (self.explanation, self.ban) = (explanation, ban)
        (self.isKnownUser, self.admitsAnonymous) = (isKnownUser, admitsAnonymous)
    }
}

/// A request to another node for somebody whom this one knows.
public struct NodeRequest: Sendable, Equatable {
    public var method: String
    /// Path and query.
    public var target: String
    /// Where the page begins; nil at the beginning.
    public var cursor: String?
    public var role: AdministrationRole
    /// For the other node's audit.
    public var who: String

    public init(method: String, target: String, cursor: String?, role: AdministrationRole, who: String) {
        (self.method, self.target, self.cursor, self.role, self.who) = (method, target, cursor, role, who)
    }
}

/// What a node has answered.
public struct NodeResponse: Sendable {
    /// Its name, or its identifier.
    public var node: String
    /// nil if it did not in time.
    public var status: Int?
    public var body: [UInt8]

    public init(node: String, status: Int?, body: [UInt8]) { (self.node, self.status, self.body) = (node, status, body) }
}
