internal import Platform
public import SQLite

/// Why a store cannot be opened, checked or copied.
public enum StoreError: Error, Sendable, CustomStringConvertible {
    /// The kernel refused: the operation with its file, and why.
    case system(String, reason: String)
    case sqlite(SQLiteError)
    /// Another process works with the store.
    case inUse(path: String)
    /// A later broker wrote it.
    case newer(path: String, version: UInt32)
    /// A copy is to be made where something is already.
    case exists(path: String)
    /// There is no store.
    case absent(path: String)
    /// Not everything that was acknowledged can be read.
    case damaged(path: String, [StoreDamage])

    public var description: String {
        switch self {
        case .system(let operation, let reason): "\(operation): \(reason)"
        case .sqlite(let error): "the store: \(error)"
        case .inUse(let path): "\(path) is in use by another process"
        case .newer(let path, let version):
            "\(path) has version \(version), which a later Martlet wrote; this one knows version \(StoreSchema.version)"
        case .exists(let path): "\(path) is there already"
        case .absent(let path): "\(FullPath.of(path)): there is no store; name the directory that persistence_location names"
        case .damaged(let path, let damages): Self.describe(path, damages)
        }
    }

    private static func describe(_ path: String, _ damages: [StoreDamage]) -> String {
        var lines = ["\(path) is damaged; the broker does not start with a part of it unless it is told to."]
        lines += damages.prefix(Limits.damagesListed).map { "  \($0)" }
        if damages.count > Limits.damagesListed { lines.append("  and \(damages.count - Limits.damagesListed) more") }
        if damages.contains(where: \.isOfDisk) {
            lines.append(
                "The disk could not be read: check the disk first, or start again; the data may still be intact")
        }
        lines.append("To go on with what is intact, start the broker once with --repair: it keeps a copy of the damaged files")
        return lines.joined(separator: "\n")
    }
}
