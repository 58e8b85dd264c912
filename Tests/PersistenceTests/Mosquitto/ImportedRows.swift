import BrokerModel
import MQTTCodec

@testable import Persistence

/// The rows of an import, read as the core reads them.
struct ImportedRows {
    private(set) var sessions: [UInt64: StoredSession] = [:]
    private(set) var subscriptions: [StoredSubscription] = []
    private(set) var receipts: [StoredReceipt] = []
    private(set) var messages: [UInt64: StoredMessage] = [:]
    private(set) var entries: [(key: UInt64, entry: StoredEntry)] = []
    private(set) var flows: [UInt64: StoredFlow] = [:]
    private(set) var retained: [StoredRetained] = []
    /// Rows that the core would not take, keys that stand there twice, and entries of no session or no message.
    private(set) var unreadable = 0
    let counts: MosquittoImportCounts

    private var keys: Set<StoreRequest.Row> = []

    init(of database: MosquittoDatabase, listenerPorts: [UInt16] = []) {
        let conversion = MosquittoImport(of: database, listenerPorts: listenerPorts)
        counts = conversion.counts
        conversion.batch.forEach { take($0) }
        entries.sort { $0.key < $1.key }
        for (_, entry) in entries where sessions[entry.session] == nil { unreadable += 1 }
        for case .shared(let number) in entries.map(\.entry.content) where messages[number] == nil { unreadable += 1 }
        for key in flows.keys where !entries.contains(where: { $0.key == key }) { unreadable += 1 }
    }

    private mutating func take(_ record: JournalRecord) {
        guard record.operation == .insert, keys.insert(StoreRequest.Row(record.table, key: record.key)).inserted,
            read(record)
        else {
            unreadable += 1
            return
        }
    }

    private mutating func read(_ record: JournalRecord) -> Bool {
        switch record.table {
        case .session: sessions[record.key] = StoredSession(decoding: record.body)
        case .subscription: subscriptions += [StoredSubscription(decoding: record.body)].compactMap { $0 }
        case .received: receipts += [StoredReceipt(key: record.key)].compactMap { $0 }
        case .message: messages[record.key] = StoredMessage(decoding: record.body)
        case .entry: entries += [StoredEntry(decoding: record.body)].compactMap { $0 }.map { (record.key, $0) }
        case .flow: flows[record.key] = StoredFlow(decoding: record.body)
        case .retained: retained += [StoredRetained(decoding: record.body)].compactMap { $0 }
        case .broker, .relayed: return false
        }
        let total = sessions.count + subscriptions.count + receipts.count + messages.count + entries.count + flows.count
        return total + retained.count == keys.count - unreadable
    }

    /// What waits for a client, in order.
    func queue(of client: String) -> [(key: UInt64, entry: StoredEntry)] {
        entries.filter { sessions[$0.entry.session]?.clientIdentifier.description == client }
    }

    func message(of entry: StoredEntry) -> StoredMessage? {
        switch entry.content {
        case .inline(let message): message
        case .shared(let number): messages[number]
        }
    }
}
