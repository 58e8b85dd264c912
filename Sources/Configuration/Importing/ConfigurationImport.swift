/// What becomes of mosquitto's configuration: the files that are copied, the lines that are changed, and what is to be
/// said of it. Nothing has been written yet.
public struct ConfigurationImport: Sendable {
    /// What a file is for, from which follows who may read and write it.
    public enum Purpose: Sendable, Equatable {
        case configuration
        /// Users, rules and keys of clients.
        case security
        case certificate
        /// What the broker itself changes: dynamic security, and mosquitto's database, which it takes over.
        case state
    }

    /// A file, and its copy.
    public struct Copy: Sendable, Equatable {
        public var source: String
        public var destination: String
        public var purpose: Purpose
        /// The text that is written in place of what the file holds; nil for the same.
        public var text: [UInt8]?

        public init(source: String, destination: String, purpose: Purpose, text: [UInt8]?) {
            self.source = source
            self.destination = destination
            self.purpose = purpose
            self.text = text
        }
    }

    /// A line of mosquitto's that is another one in the copy.
    public struct Change: Sendable, Equatable {
        public var file: String
        /// Counted from 1.
        public var line: Int
        public var before: String
        /// nil where the line is a comment now.
        public var after: String?
        public var reason: String?
    }

    /// In the order in which they are read.
    public internal(set) var copies: [Copy] = []
    public internal(set) var changes: [Change] = []
    /// Lines to which Martlet has nothing that answers, as sentences.
    public internal(set) var withoutCounterpart: [String] = []
    /// What else whoever changes over should know, as sentences.
    public internal(set) var remarks: [String] = []
    /// The obstacles to the import, as sentences: nothing can be written.
    public internal(set) var obstacles: [String] = []
    /// Where the copies of included files are; there even if there are none.
    public internal(set) var includeDirectory = ""
    /// mosquitto's database; nil where it keeps none, or none is there.
    public var database: Copy?
    /// Whether it is that of the persist-sqlite plug-in.
    public internal(set) var isDatabaseOfPlugin = false
    /// The configuration as it is afterwards, with what is wrong with it.
    public internal(set) var result = ConfigurationResult(configuration: .default(ports: []), diagnostics: [])
}
