import Commands
import Configuration
import Glibc
import Persistence

/// What mosquitto keeps, read to the end before it is copied.
struct ImportedDatabase {
    let copies: [ConfigurationImport.Copy]
    let counts: MosquittoImportCounts
    /// Whether mosquitto wrote it when it ended.
    let isComplete: Bool
    /// The directory in which a store is already, to which nothing would be added; nil for none.
    let store: String?

    /// - Parameters:
    ///   - copy: of the file.
    ///   - isOfPlugin: whether it is the persist-sqlite plug-in's.
    ///   - configuration: as it is after the import.
    init(_ copy: ConfigurationImport.Copy, isOfPlugin: Bool, in configuration: BrokerConfiguration) throws {
        let database = try Self.read(copy.source, isOfPlugin: isOfPlugin)
        counts = MosquittoImport(of: database, listenerPorts: []).counts
        isComplete = isOfPlugin || database.wasWrittenAtEnd
        var copies = [copy]
        if isOfPlugin, access("\(copy.source)-wal", F_OK) == 0 {
            copies.append(
                ConfigurationImport.Copy(
                    source: "\(copy.source)-wal", destination: "\(copy.destination)-wal", purpose: .state, text: nil))
        }
        self.copies = copies
        let directory = String(copy.destination.prefix(upTo: copy.destination.lastIndex(of: "/") ?? copy.destination.startIndex))
        store = SQLiteStore.exists(in: directory, named: configuration.persistence.storeName) ? directory : nil
    }

    private static func read(_ path: String, isOfPlugin: Bool) throws -> MosquittoDatabase {
        do {
            if isOfPlugin { return try MosquittoDatabase(ofPlugin: path) }
            return try MosquittoDatabase(try DiskFiles().contents(ofFile: path, bytesMax: .max))
        } catch let error as FileFailure {
            throw failure("\(path): \(error.reason).")
        } catch {
            throw failure("\(path): \(error). To change over without it, give --no-database.")
        }
    }

    private static func failure(_ message: String) -> ExitCode {
        Console.complain("Error: \(message)\nNothing was written.")
        return ExitCode(1)
    }
}
