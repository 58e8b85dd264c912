/// Where an imported configuration goes, and what is there already.
public struct ImportTarget: Sendable, Equatable {
    /// The directory of the configuration, such as `/etc/martlet`.
    public var directory: String
    /// Where the broker keeps what it has to remember.
    public var storeDirectory: String
    /// Where its log files may be; nil for nowhere.
    public var logDirectory: String?
    /// Where its sockets may be; nil for nowhere.
    public var runtimeDirectory: String?
    /// Whom a broker that root starts becomes; nil where the import is not root's.
    public var userName: String?
    /// The files of the directory that `include_dir` names, where there is a main file that stays as it is; nil where there is none yet.
    public internal(set) var existingIncludeDirectory: String?

    /// The file that the broker is started with.
    public var mainFile: String { "\(directory)/martlet.conf" }
    /// Where included files go.
    public var includeDirectory: String { existingIncludeDirectory ?? "\(directory)/conf.d" }
    /// Whether the main file is there, and stays as it is.
    public var keepsMainFile: Bool { existingIncludeDirectory != nil }

    /// - Parameters:
    ///   - directory: of the configuration.
    ///   - storeDirectory: for a configuration that is not there yet; else its own counts.
    public init(directory: String, storeDirectory: String) {
        self.directory = directory
        self.storeDirectory = storeDirectory
    }
}
