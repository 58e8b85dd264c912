import MQTTCodec

/// How the bodies of chunks are laid out, which changed in version 5. Each reads a body from its first byte.
protocol MosquittoLayout {
    /// The kind of the chunk that begins here, as the file says it.
    func readKind(_ cursor: inout MosquittoCursor) throws(MosquittoDatabaseError) -> UInt32
    /// Whether the file was written when the broker ended.
    func readConfiguration(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> Bool
    func readClient(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClient
    func readMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoMessage
    func readClientMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClientMessage
    func readSubscription(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoSubscription
}

extension MosquittoCursor {
    /// Reads how many bytes the numbers of messages have: eight, whatever the machine.
    mutating func readNumberSize() throws(MosquittoDatabaseError) {
        guard try readByte() == 8 else { throw illegal("the numbers of messages do not have 8 bytes", behind: 1) }
    }

    mutating func readPayload(_ length: UInt32) throws(MosquittoDatabaseError) -> [UInt8] {
        guard length <= 268_435_455 else { throw error(.illegal("no payload is that long")) }
        return try take(Int(length))
    }

    mutating func readDirection() throws(MosquittoDatabaseError) -> MosquittoClientMessage.Direction {
        guard let direction = MosquittoClientMessage.Direction(rawValue: try readByte()) else {
            throw illegal("there is no such direction", behind: 1)
        }
        return direction
    }

    mutating func readState() throws(MosquittoDatabaseError) -> MosquittoClientMessage.State {
        guard let state = MosquittoClientMessage.State(rawValue: try readByte()) else {
            throw illegal("there is no such state", behind: 1)
        }
        return state
    }

    /// Reads the properties that end a chunk behind their length, or that there are none.
    mutating func readProperties() throws(MosquittoDatabaseError) -> Properties {
        if isAtEnd { return Properties() }
        let start = position
        var length = 0
        var shift = 0
        var byte: UInt8
        repeat {
            byte = try readByte()
            length |= Int(byte & 0x7F) << shift
            shift += 7
        } while byte >= 0x80 && shift < 28
        guard length == count, let properties = Properties(publishContent: try take(length)) else {
            throw illegal("these are no properties of a message", behind: position - start)
        }
        return properties
    }
}
