/// Whether and how the broker keeps its state across a restart.
public struct PersistenceConfiguration: Sendable, Equatable {
    /// `persistence`.
    public var isEnabled = false
    /// Whether mosquitto's plug-in for SQLite has switched it on, whose file is imported then when there is no store yet.
    public var isOfPlugin = false
    /// `persistence_location`: the directory; nil is the directory that the broker was started in.
    public var location: String?
    /// `persistence_file`: mosquitto's file, which is imported when there is no store yet, and what the store is named after.
    public var file = defaultFile
    /// mosquitto's name for its file.
    public static let defaultFile = "mosquitto.db"
    /// `martlet_durability` outside of every listener's section: what an acknowledgement promises while persistence is on.
    public var durability = Durability.commit
    /// `martlet_store_bytes_max`: how many bytes of the store may be in use before it is full; nil is as many as the disk has.
    public var bytesMax: Int?
    /// `autosave_interval`: the number after which the store is compacted, in seconds or, if `autosavesOnChanges`, in changes; nil never.
    public var autosaveInterval: Int? = 1800
    /// `autosave_on_changes`.
    public var autosavesOnChanges = false

    public init() {}

    /// What the store's database is called: martlet.db, or with another `persistence_file` a name that holds that of the file, so that
    /// brokers may share a directory.
    public var storeName: String { file == Self.defaultFile ? "martlet.db" : "martlet-\(file)" }
}

/// What an acknowledgement promises.
public enum Durability: Sendable, Equatable {
    /// What was acknowledged survives `kill -9` and a power cut.
    case commit
    /// What was acknowledged begins to be written at most that many seconds later; a crash costs what was not.
    case interval(seconds: Int)
    /// Nothing before an orderly stop.
    case none
}
