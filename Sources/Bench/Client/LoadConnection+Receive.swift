import MQTTCodec

/// What the broker sent.
extension LoadConnection {
    /// The beginning of a packet, to be put before the bytes that are read next.
    var carriedByteCount: Int { carried.count }

    /// Copies it to the front of the memory that the next bytes are read into, behind it; returns how many bytes it is.
    func copyCarriedBytes(to memory: UnsafeMutableRawBufferPointer) -> Int {
        guard !carried.isEmpty else { return 0 }
        memory.copyBytes(from: carried)
        return carried.count
    }

    /// Takes what was carried, if anything, and what was read behind it. Never traps, whatever the bytes.
    func received(_ bytes: UnsafeRawBufferPointer, observer: any DeliveryObserver) {
        guard let base = bytes.baseAddress, phase != .failed else { return }
        if !carried.isEmpty { carried.removeAll(keepingCapacity: true) }
        var position = skip(bytes.count, observer)
        // Messages of one burst have one stamp, and are told together.
        var run = StampRun(observer: observer)
        while bytes.count &- position >= 2 {
            let rest = UnsafeRawBufferPointer(start: base + position, count: bytes.count &- position)
            guard case .packet(let firstByte, let headerLength, let bodyLength) = FrameScan.scan(rest) else {
                if rest.count >= 5 { fail(.malformed) }
                break
            }
            let isPublish = firstByte & 0xF0 == 0x30
            let available = rest.count &- headerLength
            if bodyLength > available {
                if isPublish { beginSkip(firstByte, base + position + headerLength, bodyLength, available, &position, bytes.count) }
                break
            }
            let body = UnsafeRawBufferPointer(start: base + position + headerLength, count: bodyLength)
            if isPublish {
                guard let stamp = take(firstByte, body, bodyLength: bodyLength) else {
                    fail(.malformed)
                    break
                }
                deliveredHere &+= 1
                run.add(stamp)
            } else {
                receivedControl(firstByte, body)
            }
            position &+= headerLength &+ bodyLength
        }
        tally.delivered &+= run.finish()
        if position < bytes.count, phase != .failed { carried.append(contentsOf: bytes[position...]) }
    }

    /// Reads stamp and identifier of a PUBLISH of which at least the part before the payload is there; acknowledges it when it is whole.
    ///
    /// Returns the stamp, 0 without one; nil when the packet is not whole or not right.
    @inline(__always)
    private func take(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, bodyLength: Int) -> UInt64? {
        guard body.count >= 2 else { return nil }
        var offset = 2 &+ Int(UInt16(bigEndian: body.loadUnaligned(as: UInt16.self)))
        let qos = (firstByte &>> 1) & 3
        var identifier: UInt16 = 0
        if qos > 0 {
            guard offset &+ 2 <= body.count else { return nil }
            identifier = body.loadUnaligned(fromByteOffset: offset, as: UInt16.self)
            offset &+= 2
        }
        if isVersion5 {
            guard offset < body.count else { return nil }
            let length = Int(body[offset])
            guard length < 0x80 else { return takeLongProperties(qos, identifier, body, offset, bodyLength) }
            offset &+= 1 &+ length
        }
        return readStamp(qos, identifier, body, offset, bodyLength)
    }

    @inline(never)
    private func takeLongProperties(
        _ qos: UInt8, _ identifier: UInt16, _ body: UnsafeRawBufferPointer, _ offset: Int, _ bodyLength: Int
    ) -> UInt64? {
        guard let length = try? VariableByteInteger.read(UnsafeRawBufferPointer(rebasing: body[offset...])) else { return nil }
        return readStamp(qos, identifier, body, offset + length.size + length.value, bodyLength)
    }

    @inline(__always)
    private func readStamp(
        _ qos: UInt8, _ identifier: UInt16, _ body: UnsafeRawBufferPointer, _ offset: Int, _ bodyLength: Int
    ) -> UInt64? {
        let stamped = min(bodyLength &- offset, PayloadStamp.byteCount)
        guard stamped >= 0, offset &+ stamped <= body.count else { return nil }
        var stamp: UInt64 = 0
        if stamped >= PayloadStamp.timeByteCount { stamp = body.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        if stamped == PayloadStamp.byteCount {
            sequence.note(
                publisher: body.loadUnaligned(fromByteOffset: offset &+ PayloadStamp.publisherOffset, as: UInt32.self),
                number: body.loadUnaligned(fromByteOffset: offset &+ PayloadStamp.numberOffset, as: UInt32.self), in: tally)
        }
        // [MQTT-4.3.2-4 v5] [MQTT-4.3.3-8 v5]
        if qos > 0 {
            let acknowledgement: UInt8 = qos == 1 ? 0x40 : 0x50
            if body.count == bodyLength {
                writeAcknowledgement(acknowledgement, identifier)
            } else {
                skippedAcknowledgement = (acknowledgement, identifier)
            }
        }
        return stamp
    }

    /// The four bytes of PUBACK, PUBREC, PUBREL or PUBCOMP; the identifier as it lies in memory.
    @inline(__always)
    func writeAcknowledgement(_ firstByte: UInt8, _ identifier: UInt16) {
        let memory = output.append(4)
        memory.storeBytes(of: firstByte, as: UInt8.self)
        memory.storeBytes(of: 2, toByteOffset: 1, as: UInt8.self)
        memory.storeBytes(of: identifier, toByteOffset: 2, as: UInt16.self)
    }

    // MARK: A message larger than what was read

    /// Reads what stands before the payload, so that the payload need not be kept until it is whole.
    private func beginSkip(
        _ firstByte: UInt8, _ body: UnsafeRawPointer, _ bodyLength: Int, _ available: Int, _ position: inout Int, _ end: Int
    ) {
        guard let stamp = take(firstByte, UnsafeRawBufferPointer(start: body, count: available), bodyLength: bodyLength) else {
            return
        }
        skippedStamp = stamp
        skipCount = bodyLength - available
        position = end
    }

    /// Passes over the payload; the message has arrived when its last byte has. Returns how many bytes that were.
    private func skip(_ count: Int, _ observer: any DeliveryObserver) -> Int {
        guard skipCount > 0 else { return 0 }
        let skipped = min(skipCount, count)
        skipCount -= skipped
        if skipCount == 0 {
            deliveredHere &+= 1
            tally.delivered &+= 1
            if let (acknowledgement, identifier) = skippedAcknowledgement { writeAcknowledgement(acknowledgement, identifier) }
            skippedAcknowledgement = nil
            if skippedStamp != 0 { observer.delivered(1, stampedAt: skippedStamp) }
        }
        return skipped
    }
}

/// Messages in a row with one stamp.
private struct StampRun {
    let observer: any DeliveryObserver
    private var stamp: UInt64 = 0
    private var count = 0
    private var total: UInt64 = 0

    init(observer: any DeliveryObserver) { self.observer = observer }

    @inline(__always)
    mutating func add(_ next: UInt64) {
        if next != stamp { tell(next) }
        count &+= 1
    }

    private mutating func tell(_ next: UInt64) {
        if count > 0, stamp != 0 { observer.delivered(count, stampedAt: stamp) }
        total &+= UInt64(count)
        count = 0
        stamp = next
    }

    /// Tells the last run; returns how many messages there were.
    mutating func finish() -> UInt64 {
        tell(0)
        return total
    }
}

/// Whoever wants to know how long messages took.
protocol DeliveryObserver: AnyObject {
    /// So many messages in a row arrived that were stamped at this time. Once for a run of equal stamps, not for each message.
    func delivered(_ count: Int, stampedAt nanoseconds: UInt64)
}
