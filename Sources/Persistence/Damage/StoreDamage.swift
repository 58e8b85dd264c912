public import BrokerModel
public import SQLite

/// One thing that is wrong with a store: with a record, a table or the files.
public struct StoreDamage: Equatable, Sendable, CustomStringConvertible {
    public enum Fault: Equatable, Sendable {
        /// The record's bytes are not those that were written.
        case checksum
        /// The record's bytes are what was written, but mean nothing to this broker.
        case meaning
        /// So many records are gone; which, is not known.
        case missing(UInt64)
        /// The table holds records that were deleted, or older ones, in place of what it should.
        case content
        /// What SQLite could not read of a table.
        case unreadable(SQLiteError)
        /// What is wrong with a file.
        case file(String)
    }

    /// Nil where a file is meant.
    public let table: StoreTable?
    /// Nil where not one record is meant.
    public let key: UInt64?
    public let fault: Fault

    init(_ table: StoreTable, key: UInt64? = nil, _ fault: Fault) {
        self.table = table
        self.key = key
        self.fault = fault
    }

    init(file text: String) {
        table = nil
        key = nil
        fault = .file(text)
    }

    /// Whether the disk may be to blame, and not what is on it.
    var isOfDisk: Bool {
        guard case .unreadable(let error) = fault else { return false }
        return error.isOfDisk
    }

    public var description: String {
        let place = (table?.name ?? "") + (key.map { " \($0)" } ?? "")
        switch fault {
        case .checksum: return "\(place): the record is damaged"
        case .meaning: return "\(place): the record cannot be understood"
        case .missing(let count): return "\(place): \(count) \(count == 1 ? "record is" : "records are") missing"
        case .content: return "\(place): the records are not those of the last commit"
        case .unreadable(let error): return "\(place): cannot be read in full: \(error)"
        case .file(let text): return text
        }
    }
}
