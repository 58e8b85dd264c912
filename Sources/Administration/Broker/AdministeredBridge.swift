/// A bridge to another broker, as it was a moment ago.
public struct AdministeredBridge: Sendable {
    public enum State: String, Sendable, CaseIterable {
        case connected
        case connecting
        /// Until it tries again.
        case waiting
        /// Until there is something for it to carry.
        case lazy
        /// By an administrator.
        case paused
        /// It was to connect once, and has.
        case ended
        /// It cannot be run as it is configured.
        case failed
    }

    /// An option of its section and what follows it: one text, or of an option that may be given more than once, one
    /// for each line.
    public struct Option: Sendable {
        public var name: String
        /// Masked where they are secret.
        public var values: [String]
        public var isRepeatable: Bool

        public init(name: String, values: [String], isRepeatable: Bool) {
            (self.name, self.values, self.isRepeatable) = (name, values, isRepeatable)
        }
    }

    /// Where a section stands.
    public struct Location: Hashable, Sendable {
        public var file: String
        /// Counted from 1.
        public var line: Int

        public init(file: String, line: Int) { (self.file, self.line) = (file, line) }
    }

    /// One of its connections.
    public struct Connection: Sendable {
        /// Counted from 1.
        public var number: Int
        /// At the other broker.
        public var clientIdentifier: String
        public var state: State
        /// The address that is connected, or tried; nil before the first attempt.
        public var address: String?
        /// Why it is not connected, in words.
        public var lastError: String?
        public var queuedMessages = 0
        public var queuedBytes = 0
        public var lagMilliseconds: UInt64 = 0
        public var rateOut = 0.0
        public var rateIn = 0.0
        public var messagesOut: UInt64 = 0
        public var messagesIn: UInt64 = 0

        public init(number: Int, clientIdentifier: String, state: State, address: String?, lastError: String?) {
            (self.number, self.clientIdentifier, self.state) = (number, clientIdentifier, state)
            (self.address, self.lastError) = (address, lastError)
        }
    }

    public var name: String
    public var state = State.waiting
    /// Whether an administrator has paused it, also if it cannot be run.
    public var isPaused = false
    /// The address that is connected, or tried; nil before the first attempt.
    public var address: String?
    /// Since when it is connected, in milliseconds since 1970; nil while it is not.
    public var connectedSince: UInt64?
    /// Why it is not connected, or cannot be run, in words.
    public var lastError: String?
    /// Nil for one that administrators have added.
    public var location: Location?
    public var options: [Option] = []
    /// Connections that were made.
    public var connections: UInt64 = 0
    public var messagesOut: UInt64 = 0
    public var messagesIn: UInt64 = 0
    public var bytesOut: UInt64 = 0
    public var bytesIn: UInt64 = 0
    /// Messages that did not cross: too large, without a name at the other end, or refused there.
    public var droppedOut: UInt64 = 0
    public var droppedIn: UInt64 = 0
    /// Messages a second, in the last second or so.
    public var rateOut = 0.0
    public var rateIn = 0.0
    /// Messages that wait here for the other broker, or for its acknowledgement, and their bytes.
    public var queuedMessages = 0
    public var queuedBytes = 0
    /// How many of them memory need not hold, because they are on the disk.
    public var storedMessages = 0
    /// How long the oldest of them has waited since it came, or since the broker's start, in milliseconds; 0 for none.
    public var lagMilliseconds: UInt64 = 0

    /// Its connections, by number; all else here is of all of them together. Empty before any has told.
    public var eachConnection: [Connection] = []

    public init(name: String) { self.name = name }

    public var isConnected: Bool { state == .connected }
}

/// What an administrator wants of a bridge.
public enum BridgeCommand: Sendable {
    /// An option with its values; none take it away.
    public typealias Setting = (option: String, values: [String]?)

    /// Make one, and run it from now on.
    case add([Setting])
    /// Give it other options; the others stay.
    case change([Setting])
    /// End it, and forget it and what waits for it.
    case remove
    /// End its connection; what comes for it waits.
    case pause
    case resume
}

/// What has become of such a command.
public enum BridgeCommandOutcome: Sendable {
    /// The command is done.
    ///
    /// - Parameter warnings: what is probably not as it was meant, as sentences.
    case done(warnings: [String])
    case notFound
    /// Something else is in the way; a sentence.
    case conflict(String)
    /// The options are wrong: why, as sentences.
    case wrong([String])
    /// It could not be written down, and so nothing is changed; a sentence.
    case notKept(String)
}
