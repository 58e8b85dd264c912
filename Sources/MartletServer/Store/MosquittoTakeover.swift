import Administration
import BrokerCore
import BrokerModel
import Configuration
import Glibc
import Persistence
import Platform
import ServerLoops

/// The first start after mosquitto: what it kept is taken over, and its file stays as it is.
///
/// That is `mosquitto.sqlite3` with the persist-sqlite plug-in, else `mosquitto.db`; if only the other one is there, it
/// is that.
struct MosquittoTakeover {
    let directory: String
    /// mosquitto's own file, in the directory.
    let file: String
    /// Of the store's database, in the directory.
    let storeName: String
    /// Whether the configuration names the plug-in.
    let usesPlugin: Bool
    /// The ports of the listeners, in the configuration's order.
    let listenerPorts: [UInt16]

    init(_ persistence: PersistenceConfiguration, listenerPorts: [UInt16] = []) {
        directory = persistence.location ?? "."
        file = persistence.file
        storeName = persistence.storeName
        usesPlugin = persistence.isOfPlugin
        self.listenerPorts = listenerPorts
    }

    private var ownPath: String { path(file) }
    /// The plug-in's file.
    private var pluginPath: String { path("mosquitto.sqlite3") }
    private func path(_ name: String) -> String { directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)" }

    /// Makes a store of mosquitto's database, if there is one and no store yet.
    func run(log: Log) throws(ServerError) {
        let present = present
        guard !SQLiteStore.exists(in: directory, named: storeName) else {
            for path in present {
                log.write(.information, "\(path) is not read: there is a store here already.\(removal(of: path))")
            }
            return
        }
        guard let path = present.first else { return }
        if present.count > 1 {
            log.write(.warning, "Warning: \(present[1]) of mosquitto is not imported, because \(path) is.")
        }
        let database = try read(path)
        let rows = MosquittoImport(of: database, listenerPorts: listenerPorts)
        do throws(StoreError) {
            try SQLiteStore.create(directory, named: storeName, holding: rows.batch)
        } catch {
            throw .store(error)
        }
        report(rows.counts, database, path, log)
    }

    /// Why the database could not be taken over; nil when it could, or there is none to be. It is read, and nothing is
    /// made of it.
    var obstacle: ServerError? {
        guard !SQLiteStore.exists(in: directory, named: storeName), let path = present.first else { return nil }
        do throws(ServerError) {
            _ = try read(path)
            return nil
        } catch {
            return error
        }
    }

    /// The files that are there, the one to be taken over first.
    private var present: [String] {
        let paths: [String] = usesPlugin ? [pluginPath, ownPath] : [ownPath, pluginPath]
        return paths.filter { path in access(path, F_OK) == 0 }
    }

    private func read(_ path: String) throws(ServerError) -> MosquittoDatabase {
        try path == pluginPath ? readPlugin() : readOwn()
    }

    private func readPlugin() throws(ServerError) -> MosquittoDatabase {
        do throws(MosquittoPluginDatabaseError) {
            return try MosquittoDatabase(ofPlugin: pluginPath)
        } catch {
            throw .mosquittoDatabase(path: pluginPath, reason: "\(error)")
        }
    }

    private func readOwn() throws(ServerError) -> MosquittoDatabase {
        let bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try DiskFiles().contents(ofFile: ownPath, bytesMax: .max)
        } catch {
            throw .mosquittoDatabase(path: ownPath, reason: error.reason)
        }
        do throws(MosquittoDatabaseError) {
            return try MosquittoDatabase(bytes)
        } catch {
            throw .mosquittoDatabase(path: ownPath, reason: "\(error)")
        }
    }

    /// What to type when nobody needs the file; nothing where it is mosquitto's own, which may be started again.
    private func removal(of path: String) -> String {
        guard OtherHolder.name(of: path, besides: UserName.of(geteuid()) ?? "") == nil else { return "" }
        return " To remove it: rm \(FullPath.of(path))"
    }

    private func report(_ counts: MosquittoImportCounts, _ database: MosquittoDatabase, _ path: String, _ log: Log) {
        log.write(
            .notice,
            "Imported \(path) of mosquitto: \(CountedNoun.text(counts.sessions, "session")), "
                + "\(CountedNoun.text(counts.subscriptions, "subscription")), \(counts.queuedMessages) queued and "
                + "\(CountedNoun.text(counts.retainedMessages, "retained message")). It is not read again.\(removal(of: path))")
        if !database.wasWrittenAtEnd {
            log.write(.warning, "Warning: mosquitto was running when it wrote \(path). Later changes are not in it.")
        }
    }
}

/// The store of a running broker: opened, given back to the shards, and closed. Belongs to the control thread.
///
///     open ─► restore ─► start ─► close
final class OpenStore {
    let store: SQLiteStore
    /// What it last had to tell.
    private(set) var condition = BrokerCondition.Store.good
    private let durability: Durability
    /// Whether what was acknowledged is on the disk already, whichever listener its client came by.
    let savesAtOnce: Bool
    private let log: Log

    private init(_ store: SQLiteStore, _ configuration: BrokerConfiguration, log: Log) {
        (self.store, self.log) = (store, log)
        durability = configuration.strictestDurability
        savesAtOnce = configuration.listeners.allSatisfy { $0.durability == .commit }
    }

    /// Opens the store that the configuration asks for; nil if it asks for none.
    static func open(_ configuration: BrokerConfiguration, repairs: Bool, log: Log) throws(ServerError) -> OpenStore? {
        let persistence = configuration.persistence
        guard persistence.isEnabled else { return nil }
        let directory = persistence.location ?? "."
        if let obstacle = StoreRights.obstacle(to: directory) {
            throw .storeDirectory(path: FullPath.of(directory), reason: obstacle.advice())
        }
        let ports = configuration.listeners.map { ListenerPolicy($0).port }
        try MosquittoTakeover(persistence, listenerPorts: ports).run(log: log)
        do throws(StoreError) {
            let store = try SQLiteStore.open(
                directory, named: persistence.storeName,
                options: StoreOptions(repair: repairs, bytesMax: persistence.bytesMax.map { UInt64($0) }),
                log: { log.write($0, $1) })
            for loss in store.losses { log.write(.error, "Error: lost from the store: \(loss)") }
            return OpenStore(store, configuration, log: log)
        } catch {
            throw .store(error)
        }
    }

    /// Gives the shards what was kept; refuses a store of which a part cannot be read, unless that was asked for.
    func restore(_ shards: [BrokerShard]) throws(ServerError) {
        do throws(StoreError) {
            var recovery = Recovery(shards: shards, highestKeys: try store.highestKeys())
            let damages = store.load { table, key, body in recovery.restore(table, key: key, body: body) }
            let (summary, changes) = recovery.finish()
            if !damages.isEmpty {
                guard store.isBeingRepaired else { throw store.refusal(damages) }
                for damage in damages { log.write(.error, "Error: lost from the store: \(damage)") }
            }
            try store.commitFirst(changes)
            log.write(
                .notice,
                "The store holds \(CountedNoun.text(summary.sessions, "session")), "
                    + "\(CountedNoun.text(summary.subscriptions, "subscription")), \(summary.messages) queued and "
                    + "\(CountedNoun.text(summary.retained, "retained message")).")
        } catch {
            throw .store(error)
        }
    }

    /// Lets the store work, and tell the loops what comes of it.
    func start(_ mailboxes: [Mailbox<LoopMessage>], control: Mailbox<ControlLoopMessage>) throws(ServerError) {
        do throws(StoreError) {
            try store.start(shards: mailboxes.count) { shard, report in
                mailboxes[shard].post(.stored(report))
                if shard == 0, report.isNews { control.post(.store(report)) }
            }
        } catch {
            throw .store(error)
        }
    }

    /// The store takes what it is given, or does not any more.
    func received(_ report: StoreReport) {
        switch report {
        case .full: condition = .full
        case .failed: condition = .failed
        case .committed, .hasRoom, .rows: condition = .good
        }
    }

    /// After the last loop has ended.
    func close(_ shards: [BrokerShard]) {
        store.commit(StoredBrokerState.end(of: shards), of: 0)
        store.close()
    }

    /// How often the loops are to give the store what has gathered; nil if they do by themselves, or at the end only.
    var saveIntervalMilliseconds: UInt64? {
        guard case .interval(let seconds) = durability else { return nil }
        return UInt64(max(1, seconds)) * 1000
    }
}

extension StoreReport {
    /// Whether it says that the store takes what it is given, or does not any more.
    fileprivate var isNews: Bool {
        switch self {
        case .full, .failed, .hasRoom: true
        case .committed, .rows: false
        }
    }
}
