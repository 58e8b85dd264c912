import ArgumentParsing
import Configuration
import Persistence

/// `martlet store import`: takes over what mosquitto kept.
struct StoreImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import mosquitto's database into a directory that has no store.",
        discussion: """
            Stop mosquitto first, so that its file is complete. Sessions, subscriptions, queued messages and retained messages are imported; \
            mosquitto's file stays as it is. With -c the sessions are assigned to the listeners that their clients used.
            """)

    @Argument(
        help: ArgumentHelp(
            "mosquitto's file, such as /var/lib/mosquitto/mosquitto.db, or mosquitto.sqlite3 of its persist-sqlite plug-in.",
            valueName: "mosquitto.db"),
        completion: .file)
    var file: String

    @OptionGroup var place: StorePlace

    func run() throws {
        let (directory, name) = try place.path()
        let database = try read()
        let rows = MosquittoImport(of: database, listenerPorts: try place.configuration.listenerPorts())
        try StoreFailure.told { () throws(StoreError) in
            try SQLiteStore.create(directory, named: name, holding: rows.batch)
        }
        report(rows.counts, to: directory)
        if !database.wasWrittenAtEnd {
            Console.complain("Warning: mosquitto was running when it wrote this file. Later changes are not in it.")
        }
    }

    private func read() throws -> MosquittoDatabase {
        let bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try DiskFiles().contents(ofFile: file, bytesMax: .max)
        } catch {
            throw StoreFailure.end("\(file): \(error.reason).")
        }
        if MosquittoDatabase.isOfPlugin(bytes) { return try readPlugin() }
        do throws(MosquittoDatabaseError) {
            return try MosquittoDatabase(bytes)
        } catch {
            throw StoreFailure.end("\(file): \(error).")
        }
    }

    private func readPlugin() throws -> MosquittoDatabase {
        do throws(MosquittoPluginDatabaseError) {
            return try MosquittoDatabase(ofPlugin: file)
        } catch {
            throw StoreFailure.end("\(file): \(error).")
        }
    }

    private func report(_ counts: MosquittoImportCounts, to directory: String) {
        Console.say("Imported \(file) into \(directory):")
        Console.say("  sessions            \(counts.sessions)")
        Console.say("  subscriptions       \(counts.subscriptions)")
        Console.say("  queued messages     \(counts.queuedMessages)")
        Console.say("  received messages   \(counts.receivedMessages)")
        Console.say("  retained messages   \(counts.retainedMessages)")
        if counts.leftOut > 0 {
            let verb = counts.leftOut == 1 ? "record that belongs" : "records that belong"
            Console.complain("Warning: left out \(counts.leftOut) \(verb) to nothing in the file.")
        }
    }
}
