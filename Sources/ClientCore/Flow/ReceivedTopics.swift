import MQTTCodec

/// The topics that came, so that one that comes again takes no new memory; and what the server's Topic Aliases stand
/// for.
///
/// Each topic has one slot, by its bytes; the last that came has it. There are few slots until topics drive each
/// other out.
struct ReceivedTopics: Sendable {
    private var slots: [TopicName?] = []
    private var drivenOut = 0
    /// By Topic Alias, from 1.
    private var aliased: [TopicName?] = []

    /// The topic of a message; nil when it has an alias that is not allowed, or stands for nothing.
    @inline(__always)
    mutating func topic(of view: borrowing PublishView, aliasMaximum: UInt16) -> TopicName? {
        view.topicAlias == 0 ? kept(view) : resolved(view, aliasMaximum: aliasMaximum)
    }

    mutating func connectionOpened() { aliased = [] }

    /// Gives the memory back.
    mutating func trim() { (slots, drivenOut) = ([], 0) }

    private mutating func resolved(_ view: borrowing PublishView, aliasMaximum: UInt16) -> TopicName? {
        let index = Int(view.topicAlias) - 1
        guard view.topicAlias <= aliasMaximum else { return nil }
        if view.topic.isEmpty { return index < aliased.count ? aliased[index] : nil }
        let topic = kept(view)
        while aliased.count <= index { aliased.append(nil) }
        aliased[index] = topic
        return topic
    }

    private mutating func kept(_ view: borrowing PublishView) -> TopicName? {
        let bytes = view.topic
        if slots.isEmpty { slots = Array(repeating: nil, count: Self.slotsMin) }
        let index = Self.hash(bytes) & (slots.count - 1)
        if let topic = slots[index] {
            if topic.bytes.withUnsafeBytes({ Self.areEqual($0, bytes) }) { return topic }
            drivenOut += 1
        }
        let topic = view.topicName
        if drivenOut > slots.count, slots.count < Self.slotsMax {
            (slots, drivenOut) = (Array(repeating: nil, count: slots.count * 4), 0)
            slots[Self.hash(bytes) & (slots.count - 1)] = topic
        } else {
            slots[index] = topic
        }
        return topic
    }

    private static func areEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        var index = 0
        while index &+ 8 <= left.count {
            let same =
                left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                == right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            if !same { return false }
            index &+= 8
        }
        while index < left.count {
            if left[index] != right[index] { return false }
            index &+= 1
        }
        return true
    }

    /// Eight bytes at a time; a collision costs a copy and nothing else.
    private static func hash(_ bytes: UnsafeRawBufferPointer) -> Int {
        var hash = UInt64(truncatingIfNeeded: bytes.count)
        var index = 0
        while index &+ 8 <= bytes.count {
            hash = (hash ^ bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)) &* multiplier
            hash ^= hash &>> 32
            index &+= 8
        }
        while index < bytes.count {
            hash = (hash ^ UInt64(bytes[index])) &* multiplier
            index &+= 1
        }
        return Int(truncatingIfNeeded: (hash ^ hash &>> 29) &>> 8)
    }

    private static let multiplier: UInt64 = 0x9E37_79B9_7F4A_7C15
    private static let slotsMin = 16
    private static let slotsMax = 256
}

/// The bytes of one read, and copies of them that the messages in it share: one piece of memory for the payloads of
/// many.
struct ReceivedBytes {
    private let bytes: UnsafeRawBufferPointer
    /// Where the copy of now begins in the bytes.
    private var copyStart = 0
    private var copy: [UInt8] = []

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// For bytes that lie in an array of their own, which needs no copy.
    init(_ bytes: UnsafeRawBufferPointer, sharing array: [UInt8]) { (self.bytes, copy) = (bytes, array) }

    /// A part of the bytes, in memory that outlives the read. Each part lies behind the one that was asked for before.
    @inline(__always)
    mutating func slice(_ part: UnsafeRawBufferPointer) -> Payload {
        guard part.count > 0, let start = bytes.baseAddress, let partStart = part.baseAddress else { return Payload() }
        let offset = partStart - start
        if offset + part.count > copyStart + copy.count {
            copyStart = offset
            copy = Array(bytes[offset..<min(bytes.count, offset + max(part.count, Self.copyByteCount))])
        }
        let first = offset - copyStart
        return Payload(copy[first..<(first + part.count)])
    }

    /// A message that is kept keeps the others of its copy in memory; so a copy is not of the whole read.
    private static let copyByteCount = 16_384
}
