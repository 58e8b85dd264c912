import BrokerCore
import BrokerModel
import Configuration
import EpollLoop
import Persistence
import Platform
import ServerLoops

/// The store of a running broker: opened, given back to the shards, and closed.
///
///     open ─► restore ─► start ─► close
struct StoreKeeper {
    let store: SQLiteStore
    private let durability: Durability
    /// Whether what was acknowledged is on the disk already, whichever listener its client came by.
    let savesAtOnce: Bool
    private let log: Log

    /// Opens the store that the configuration asks for; nil if it asks for none.
    static func open(_ configuration: BrokerConfiguration, repairs: Bool, log: Log) throws(ServerError) -> StoreKeeper? {
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
            return StoreKeeper(
                store: store, durability: configuration.strictestDurability,
                savesAtOnce: configuration.listeners.allSatisfy { $0.durability == .commit }, log: log)
        } catch {
            throw .store(error)
        }
    }

    /// Gives the shards what was kept; refuses a store of which a part cannot be read, unless that was asked for.
    func restore(_ shards: [BrokerShard]) throws(ServerError) {
        do throws(StoreError) {
            var recovery = Recovery(shards: shards, highestKeys: try store.highestKeys())
            let damages = store.load { table, key, body in recovery.take(table, key: key, body: body) }
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

    /// After the last loop has ended.
    func close(_ shards: [BrokerShard]) {
        store.commit(StoredRun.end(of: shards), of: 0)
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
