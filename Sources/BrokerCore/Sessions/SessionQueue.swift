import BrokerModel
import MQTTCodec

/// The messages that a session has still to receive, oldest first: those in flight, then those that wait.
///
///     head ▼                        ▼ sentEnd
///     [ sent | vacant | released | waiting | waiting ] paged    one ring; vacant places at the head are given up
///
/// The entries in `paged` stand behind all of the ring; positions are the ring's.
///
/// Invariants: the entry at the head is not vacant; entries before `sentEnd` are not waiting; `inFlight` counts those
/// of them that are not vacant; every packet identifier in use occurs once. Empty, it holds at most the memory of a
/// small ring; after `removeAll`, none. Belongs to a session.
struct SessionQueue {
    private var ring: UnsafeMutablePointer<QueueEntry>?
    private var mask = -1
    private var head = 0
    /// All entries, vacant ones included.
    private(set) var count = 0
    /// How many entries at the front are past waiting.
    private(set) var sentEnd = 0
    /// QoS 1 and 2 messages sent and not yet acknowledged to the end: what counts against Receive Maximum.
    /// [MQTT-4.9.0-2 v5]
    private(set) var inFlight = 0
    /// Of all that wait, `paged` included.
    var waitingBytes = 0
    private(set) var inFlightBytes = 0
    /// What memory need not hold; nil for nothing.
    var paged: PagedQueue?
    /// How many messages those are.
    var pagedCount = 0
    private var lastPacketIdentifier: UInt16 = 0
    /// Whether the packet identifiers before `sentEnd` run on without a gap, so that an identifier's place can be
    /// computed.
    private var isSequential = true

    var isEmpty: Bool { count &+ pagedCount == 0 }
    var waiting: Int { count &- sentEnd &+ pagedCount }
    /// How many of those are in the ring.
    var waitingResident: Int { count - sentEnd }
    /// How many entries there is memory for.
    var capacity: Int { mask + 1 + (paged.map { $0.heldBytes / MemoryLayout<QueueEntry>.stride } ?? 0) }

    /// The entry at `position` from the head.
    subscript(position: Int) -> QueueEntry {
        _read { yield ring.unsafelyUnwrapped[(head &+ position) & mask] }
        nonmutating _modify { yield &ring.unsafelyUnwrapped[(head &+ position) & mask] }
    }

    /// Adds an entry at the end.
    mutating func append(_ entry: QueueEntry) {
        if count > mask { grow() }
        (ring.unsafelyUnwrapped + ((head &+ count) & mask)).initialize(to: entry)
        count &+= 1
        waitingBytes &+= Int(entry.byteCount)
    }

    /// The position of the first waiting entry, or nil.
    var firstWaiting: Int? { sentEnd < count ? sentEnd : nil }

    /// Marks the first waiting entry, of QoS 1 or 2, as sent and gives it a packet identifier unless it has one.
    /// [MQTT-2.2.1-4 v5] [MQTT-2.3.1-3 v3.1.1]
    mutating func markSent() -> UInt16 {
        let position = sentEnd
        // By its address: the subscript would have all of `self` retained.
        let entry = ring.unsafelyUnwrapped + ((head &+ position) & mask)
        let byteCount = Int(entry.pointee.byteCount)
        if entry.pointee.packetIdentifier == 0 {
            entry.pointee.packetIdentifier = unusedPacketIdentifier()
        } else if isSequential, position > 0, !follows(entry.pointee.packetIdentifier, position) {
            isSequential = false
        }
        if entry.pointee.state == .waiting { entry.pointee.state = .sent }
        sentEnd &+= 1
        inFlight &+= 1
        waitingBytes &-= byteCount
        inFlightBytes &+= byteCount
        return entry.pointee.packetIdentifier
    }

    /// Adds an entry that is sent at once, when nothing waits before it; returns its packet identifier.
    ///
    /// - Parameters:
    ///   - message: held for the entry.
    ///   - isSole: whether it was made for this entry.
    @inline(__always)
    mutating func appendSent(_ message: Reference<Message>, byteCount: Int, qos: QoS, isSole: Bool = false) -> UInt16 {
        if count > mask { grow() }
        let packetIdentifier = nextPacketIdentifier()
        let entry = QueueEntry(
            sent: message, byteCount: UInt32(truncatingIfNeeded: byteCount), qos: qos, packetIdentifier: packetIdentifier,
            isSole: isSole)
        (ring.unsafelyUnwrapped + ((head &+ count) & mask)).initialize(to: entry)
        count &+= 1
        sentEnd &+= 1
        inFlight &+= 1
        inFlightBytes &+= Int(entry.byteCount)
        return packetIdentifier
    }

    /// PUBACK arrived: ends the flow of the oldest entry if it is its, of QoS 1, and no row of the store has to go;
    /// false if not.
    mutating func completeFirst(_ packetIdentifier: UInt16, _ ledger: MessageLedger) -> Bool {
        guard sentEnd > 0 else { return false }
        let first = ring.unsafelyUnwrapped + head
        guard first.pointee.packetIdentifier == packetIdentifier, first.pointee.state == .sent, first.pointee.qos == .atLeastOnce,
            first.pointee.storeNumber == 0
        else { return false }
        inFlight &-= 1
        inFlightBytes &-= Int(first.pointee.byteCount)
        first.pointee.releaseMessage(to: ledger)
        dropFirst()
        return true
    }

    /// PUBREC arrived: releases the entry if it is of QoS 2, was sent, and no row of the store has to go; false if not.
    mutating func releaseSent(_ packetIdentifier: UInt16, _ ledger: MessageLedger) -> Bool {
        guard let position = position(of: packetIdentifier), self[position].state == .sent, self[position].qos == .exactlyOnce,
            self[position].storeNumber == 0
        else { return false }
        inFlightBytes &-= Int(self[position].byteCount)
        self[position].releaseMessage(to: ledger)
        self[position].state = .released
        return true
    }

    /// PUBCOMP arrived: ends the flow of the entry if it was released, and no row of the store has to go; false if not.
    mutating func completeReleased(_ packetIdentifier: UInt16) -> Bool {
        if sentEnd > 0, self[0].packetIdentifier == packetIdentifier, self[0].isReleasedForGood {
            inFlight &-= 1
            dropFirst()
            return true
        }
        guard let position = position(of: packetIdentifier), self[position].state == .released, self[position].storeNumber == 0
        else { return false }
        complete(position, nil)
        return true
    }

    /// Gives up the first waiting entry: a QoS 0 message that was sent, or one that expired or is too large.
    mutating func dropFirstWaiting(_ journal: Journal?) {
        let position = sentEnd
        waitingBytes &-= Int(self[position].byteCount)
        giveUp(position, journal)
        if position == 0 {
            head = (head &+ 1) & mask
            count &-= 1
            releaseIfEmpty()
        } else {
            isSequential = false
            sentEnd &+= 1
            compactIfSparse()
        }
    }

    /// The position of the entry in flight with this packet identifier, or nil.
    func position(of packetIdentifier: UInt16) -> Int? {
        guard sentEnd > 0 else { return nil }
        // Identifiers run from 1 to 65,535; their distance is counted in that ring.
        let first = self[0].packetIdentifier
        let distance = Int(packetIdentifier) - Int(first) + (packetIdentifier < first ? 65_535 : 0)
        if distance < sentEnd, self[distance].packetIdentifier == packetIdentifier, self[distance].state != .vacant {
            return distance
        }
        if isSequential { return nil }
        for position in 0..<sentEnd where self[position].packetIdentifier == packetIdentifier && self[position].state != .vacant {
            return position
        }
        return nil
    }

    /// PUBREC arrived: the message may go, the identifier stays in use. [MQTT-4.3.3-4 v5]
    mutating func markReleased(_ position: Int) {
        inFlightBytes &-= Int(self[position].byteCount)
        self[position].releaseDelivered()
        self[position].state = .released
    }

    /// The store tells that PUBREC had come for an entry that waits.
    mutating func restoreReleased(_ position: Int) {
        waitingBytes &-= Int(self[position].byteCount)
        self[position].releaseDelivered()
        self[position].state = .released
    }

    /// The flow of the entry has ended; its identifier is free.
    mutating func complete(_ position: Int, _ journal: Journal?) {
        inFlight &-= 1
        inFlightBytes &-= Int(self[position].byteCount)
        giveUp(position, journal)
        dropVacantFront()
        compactIfSparse()
    }

    /// The flow of the oldest entry in flight has ended, and nothing of it is left.
    @inline(__always)
    private mutating func dropFirst() {
        head = (head &+ 1) & mask
        count &-= 1
        sentEnd &-= 1
        if sentEnd > 0, self[0].state == .vacant { dropVacantFront() } else { releaseIfEmpty() }
    }

    private mutating func dropVacantFront() {
        while sentEnd > 0, self[0].state == .vacant {
            head = (head &+ 1) & mask
            count &-= 1
            sentEnd &-= 1
        }
        releaseIfEmpty()
    }

    /// The connection has ended: everything in flight waits to be sent again, in the same order, with the same
    /// identifiers. [MQTT-4.4.0-1 v5] [MQTT-4.6.0-1 v5]
    mutating func rewind() {
        compact()
        for position in 0..<sentEnd where self[position].state == .sent {
            self[position].state = .waiting
            self[position].wasSent = true
        }
        sentEnd = 0
        inFlight = 0
        waitingBytes &+= inFlightBytes
        inFlightBytes = 0
        isSequential = true
        moveReleasedToFront()
    }

    /// Puts the flows that wait for PUBCOMP before the messages that are to be sent again, each in their order: PUBREL
    /// must not wait for room in the window as messages do. [MQTT-3.3.4-10 v5]
    private mutating func moveReleasedToFront() {
        var unreleased: [QueueEntry] = []
        var kept = 0
        // Entries that were sent on an earlier connection stand in front of those that never were.
        for position in 0..<count {
            let entry = self[position]
            guard entry.packetIdentifier != 0 else { break }
            if entry.state == .released {
                if kept != position { self[kept] = entry }
                kept &+= 1
            } else {
                unreleased.append(entry)
            }
        }
        for entry in unreleased {
            self[kept] = entry
            kept &+= 1
        }
    }

    /// Removes the entries for which `isDropped` says so from those that wait.
    mutating func removeWaiting(_ journal: Journal?, where isDropped: (QueueEntry) -> Bool) {
        var kept = sentEnd
        for position in sentEnd..<count {
            if isDropped(self[position]) {
                waitingBytes &-= Int(self[position].byteCount)
                giveUp(position, journal)
            } else {
                self[kept] = self[position]
                kept &+= 1
            }
        }
        count = kept
        releaseIfEmpty()
    }

    /// Gives up the entries for which `isDropped` says so among `removable` waiting ones from `start` on; those behind
    /// move up. O(those from `start` on).
    mutating func removeWaiting(from start: Int, count removable: Int, _ journal: Journal?, where isDropped: (QueueEntry) -> Bool) {
        precondition(start >= sentEnd && start &+ removable <= count, "only what waits is given up")
        var kept = start
        for position in start..<count {
            if position < start &+ removable, isDropped(self[position]) {
                waitingBytes &-= Int(self[position].byteCount)
                giveUp(position, journal)
            } else {
                if kept != position { self[kept] = self[position] }
                kept &+= 1
            }
        }
        count = kept
        releaseIfEmpty()
    }

    /// Gives up the waiting entry at `position`; those before it move up. O(position).
    mutating func removeWaiting(at position: Int, _ journal: Journal?) {
        waitingBytes &-= Int(self[position].byteCount)
        giveUp(position, journal)
        var place = position
        while place > 0 {
            self[place] = self[place &- 1]
            place &-= 1
        }
        head = (head &+ 1) & mask
        count &-= 1
        releaseIfEmpty()
    }

    /// Drops everything and gives the memory back.
    mutating func removeAll(_ journal: Journal?) {
        for position in 0..<count { giveUp(position, journal) }
        ring?.deallocate()
        (ring, mask, head, count, sentEnd) = (nil, -1, 0, 0, 0)
        removePaged(journal)
        (inFlight, waitingBytes, inFlightBytes, isSequential) = (0, 0, 0, true)
    }

    /// The entry's message is delivered, dropped or taken elsewhere: neither memory nor the store keeps it.
    private func giveUp(_ position: Int, _ journal: Journal?) {
        let entry = self[position]
        if entry.storeNumber != 0 { journal?.endEntry(entry.storeNumber, hasFlow: entry.hasFlow) }
        self[position].releaseMessage()
        self[position].storeNumber = 0
        self[position].state = .vacant
    }

    private func follows(_ packetIdentifier: UInt16, _ position: Int) -> Bool {
        let first = Int(self[0].packetIdentifier)
        return (first - 1 + position) % 65_535 + 1 == Int(packetIdentifier)
    }

    /// An identifier for a new entry behind those that were sent, when none waits.
    private mutating func nextPacketIdentifier() -> UInt16 {
        guard sentEnd == 0 || isSequential && sentEnd < 65_535 && self[sentEnd &- 1].packetIdentifier == lastPacketIdentifier else {
            return unusedPacketIdentifier()
        }
        lastPacketIdentifier = lastPacketIdentifier == .max ? 1 : lastPacketIdentifier &+ 1
        return lastPacketIdentifier
    }

    private mutating func unusedPacketIdentifier() -> UInt16 {
        repeat {
            lastPacketIdentifier = lastPacketIdentifier == .max ? 1 : lastPacketIdentifier &+ 1
        } while isInUse(lastPacketIdentifier)
        if isSequential, sentEnd > 0, !follows(lastPacketIdentifier, sentEnd) { isSequential = false }
        return lastPacketIdentifier
    }

    /// Whether an entry has the identifier, sent on this connection or on an earlier one.
    private func isInUse(_ packetIdentifier: UInt16) -> Bool {
        if position(of: packetIdentifier) != nil { return true }
        var position = sentEnd
        // Entries that were sent on an earlier connection stand in front of those that never were.
        while position < count, self[position].packetIdentifier != 0 {
            if self[position].packetIdentifier == packetIdentifier { return true }
            position &+= 1
        }
        return false
    }

    /// Bounds the vacant places behind a head that its receiver does not acknowledge, and with them the search for an
    /// identifier.
    private mutating func compactIfSparse() {
        if sentEnd > 64, sentEnd > inFlight &* 4 { compact() }
    }

    /// Closes the vacant places among the sent entries: those move up to the waiting ones, however many wait.
    private mutating func compact() {
        guard sentEnd > inFlight else { return }
        var kept = sentEnd
        for position in (0..<sentEnd).reversed() where self[position].state != .vacant {
            kept &-= 1
            if kept != position { self[kept] = self[position] }
        }
        head = (head &+ kept) & mask
        sentEnd &-= kept
        count &-= kept
        isSequential = false
        releaseIfEmpty()
    }

    @inline(__always)
    private mutating func releaseIfEmpty() {
        if count == 0 { releaseEmpty() }
    }

    private mutating func releaseEmpty() {
        isSequential = true
        head = 0
        // A small ring is kept: a session with traffic would allocate one for each message.
        guard mask > 127 else { return }
        ring?.deallocate()
        ring = nil
        mask = -1
    }

    private mutating func grow() {
        let capacity = max(4, (mask + 1) * 2)
        let larger = UnsafeMutablePointer<QueueEntry>.allocate(capacity: capacity)
        for position in 0..<count { (larger + position).initialize(to: self[position]) }
        ring?.deallocate()
        ring = larger
        mask = capacity - 1
        head = 0
    }
}

/// Taking a queue back from the store.
extension SessionQueue {
    /// Applies what the store tells of the entries' flows, and puts the queue in the order that it has after a
    /// connection has ended: what waits for PUBCOMP, what was sent, what never was.
    ///
    /// QoS 1 messages are sent before their packet identifiers are on the disk, but never out of turn: what stands
    /// before an entry that was sent was sent too, and keeps its place. [MQTT-4.6.0-1 v5]
    ///
    /// - Parameters:
    ///   - flows: by store number; others' entries among them.
    ///   - inFlightMax: how many messages may have been in flight, if the client was connected when the broker ended;
    ///     else 0. Those of QoS 1 count as sent, for what is sent again must say so; one of QoS 2 waits for the disk,
    ///     and what is behind it too. [MQTT-3.3.1-1 v5] [MQTT-3.3.1-1 v3.1.1]
    /// - Returns: the store numbers of those that had a flow.
    mutating func arrange(_ flows: [UInt64: StoredFlow], inFlightMax: Int) -> [UInt64] {
        precondition(sentEnd == 0, "a queue is restored before its client comes")
        var applied: [UInt64] = []
        if !flows.isEmpty {
            for position in 0..<count {
                guard let flow = flows[self[position].storeNumber] else { continue }
                applied.append(self[position].storeNumber)
                self[position].packetIdentifier = flow.packetIdentifier
                self[position].hasFlow = true
                self[position].wasSent = true
                if flow.state == .released { restoreReleased(position) }
            }
        }
        var sentCount = (0..<count).last { self[$0].packetIdentifier != 0 }.map { $0 + 1 } ?? 0
        while sentCount < min(count, inFlightMax), self[sentCount].qos == .atLeastOnce { sentCount += 1 }
        moveToFront { $0.state == .released }
        // There are no more packet identifiers than that, whatever a store says.
        nameSent(min(sentCount, Int(UInt16.max)))
        return applied
    }

    /// Gives those of the first entries that have no packet identifier one of their own, which their receiver does not
    /// know yet.
    private mutating func nameSent(_ sentCount: Int) {
        var used = Set((0..<sentCount).map { self[$0].packetIdentifier })
        var next: UInt16 = 1
        for position in 0..<sentCount where self[position].packetIdentifier == 0 {
            while !used.insert(next).inserted { next += 1 }
            self[position].packetIdentifier = next
            self[position].wasSent = true
        }
    }

    /// Puts the entries for which `isFirst` says so before the others; both keep their order.
    private mutating func moveToFront(_ isFirst: (QueueEntry) -> Bool) {
        var others: [QueueEntry] = []
        var kept = 0
        for position in 0..<count {
            let entry = self[position]
            if isFirst(entry) {
                if kept != position { self[kept] = entry }
                kept &+= 1
            } else {
                others.append(entry)
            }
        }
        guard kept > 0, kept < count else { return }
        for entry in others {
            self[kept] = entry
            kept &+= 1
        }
    }
}
