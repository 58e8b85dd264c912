/// Which listener a client came in by, as the store keeps it.
public enum StoredListener: Hashable, Sendable {
    /// Its place in the configuration, in rows of the first format and those that were made of mosquitto's database.
    case place(UInt16)
    /// What the configuration calls it; empty for one that was no more when the row was written, which no listener is called.
    case name(String)

    /// Stands in a row where places were, when a name follows.
    package static let named = UInt16.max
}
