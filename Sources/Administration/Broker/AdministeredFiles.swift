public import BrokerModel
public import MQTTCodec

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

    /// Whom a rule is for.
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
        public let topic: String

        public init(file: String, line: Int, text: String, subject: Subject, access: String, topic: String) {
            (self.file, self.line, self.text) = (file, line, text)
            (self.subject, self.access, self.topic) = (subject, access, topic)
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
    case addRule(AdministeredFiles.Subject, access: String, topic: String)
    /// - Parameter text: what stands in the line, so that nobody changes another rule than they have seen.
    case changeRule(line: Int, text: String, access: String, topic: String)
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

/// Whether somebody may do something: what is asked.
public struct AccessQuestion: Sendable {
    public var userName: EncodedString?
    public var clientIdentifier: EncodedString
    public var address: String?
    public var action: AccessAction
    /// Without wildcards, but of a subscription.
    public var topic: TopicFilter
    /// An index into the broker's listeners.
    public var listener: Int

    public init(
        userName: EncodedString?, clientIdentifier: EncodedString, address: String?, action: AccessAction, topic: TopicFilter,
        listener: Int
    ) {
        (self.userName, self.clientIdentifier, self.address) = (userName, clientIdentifier, address)
        (self.action, self.topic, self.listener) = (action, topic, listener)
    }
}

/// Whether somebody may do something, and what decides it.
public struct AccessAnswer: Sendable {
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
