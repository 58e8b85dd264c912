import BrokerModel

/// The sessions of other shards that have full queues. Their filters stand in the tree, each with the index that the session has here.
struct FullQueueTable {
    private struct Entry {
        let access: AccessPolicy?
        let part: TopicPart?
        var filters: Set<[UInt8]> = []
    }

    private var entries: [Entry?] = []
    private var indices: [UInt64: UInt32] = [:]
    private var free: [UInt32] = []

    var isEmpty: Bool { indices.isEmpty }

    /// Whether a message of the topic may reach the session at an index in use.
    func mayReceive(_ index: UInt32, _ topic: UnsafeRawBufferPointer) -> Bool {
        guard let entry = entries[Int(index)] else { return true }
        return (entry.part?.holds(topic) ?? true) && (entry.access?.mayReceive(topic: topic) ?? true)
    }

    /// Takes a session in that is not there.
    mutating func enter(_ key: UInt64, _ access: AccessPolicy?, _ part: TopicPart?) {
        let index = free.popLast() ?? UInt32(entries.count)
        if index == entries.count { entries.append(nil) }
        entries[Int(index)] = Entry(access: access, part: part)
        indices[key] = index
    }

    /// Notes a filter of a session, or forgets it.
    ///
    /// - Returns: the session's index; nil if it is not there, or nothing changes.
    mutating func note(_ filter: [UInt8], of key: UInt64, isThere: Bool) -> UInt32? {
        guard let index = indices[key] else { return nil }
        let hasChanged =
            isThere
            ? entries[Int(index)]?.filters.insert(filter).inserted ?? false
            : entries[Int(index)]?.filters.remove(filter) != nil
        return hasChanged ? index : nil
    }

    /// Lets go of a session; returns where it was and what it subscribed to, in no order. Nil if it is not there.
    mutating func leave(_ key: UInt64) -> (index: UInt32, filters: Set<[UInt8]>)? {
        guard let index = indices.removeValue(forKey: key), let entry = entries[Int(index)] else { return nil }
        entries[Int(index)] = nil
        free.append(index)
        return (index, entry.filters)
    }
}
