import BrokerCore
import Configuration
import Glibc
import Persistence

/// The first start after mosquitto: what it kept is taken over, and its file stays as it is.
struct MosquittoTakeover {
    let directory: String
    /// mosquitto's file, in the directory.
    let file: String
    /// The ports of the listeners, in the configuration's order.
    let listenerPorts: [UInt16]

    private var path: String { "\(directory)/\(file)" }

    /// Makes a store of mosquitto's database, if there is one and no store yet.
    func run(log: Log) throws(ServerError) {
        guard !SQLiteStore.exists(in: directory) else { return }
        warnOfPlugin(log)
        guard access(path, F_OK) == 0 else { return }
        let database = try read()
        let rows = MosquittoImport(of: database, listenerPorts: listenerPorts)
        do throws(StoreError) {
            try SQLiteStore.create(directory, holding: rows.batch)
        } catch {
            throw .store(error)
        }
        tell(rows.counts, database, log)
    }

    /// Why the database could not be taken over; nil when it could, or there is none to be. It is read, and nothing is made of it.
    var obstacle: ServerError? {
        guard !SQLiteStore.exists(in: directory), access(path, F_OK) == 0 else { return nil }
        do throws(ServerError) {
            _ = try read()
            return nil
        } catch {
            return error
        }
    }

    /// The plug-in for SQLite stands for the store, but its own database is another.
    private func warnOfPlugin(_ log: Log) {
        let path = "\(directory)/mosquitto.sqlite3"
        guard access(path, F_OK) == 0 else { return }
        log.write(
            .warning,
            "Warning: What mosquitto's persist-sqlite plug-in kept in \(path) is not taken over: sessions and retained messages begin anew."
        )
    }

    private func read() throws(ServerError) -> MosquittoDatabase {
        let bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try DiskFiles().contents(ofFile: path, bytesMax: .max)
        } catch {
            throw .mosquittoDatabase(path: path, reason: error.reason)
        }
        do throws(MosquittoDatabaseError) {
            return try MosquittoDatabase(bytes)
        } catch {
            throw .mosquittoDatabase(path: path, reason: "\(error)")
        }
    }

    private func tell(_ counts: MosquittoImportCounts, _ database: MosquittoDatabase, _ log: Log) {
        log.write(
            .notice,
            "Took over \(path) from mosquitto: \(counts.sessions) sessions, \(counts.subscriptions) subscriptions, "
                + "\(counts.queuedMessages) queued and \(counts.retainedMessages) retained messages.")
        if !database.wasWrittenAtEnd {
            log.write(.warning, "Warning: mosquitto was running when it wrote \(path). What came later is not in it.")
        }
    }
}
