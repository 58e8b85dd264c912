internal import Bytes
public import JSON
internal import JSONReader
import Platform

/// Why JetStream has not done what it was asked.
public struct JetStreamError: Error, Equatable, Sendable, CustomStringConvertible {
    /// As in HTTP: 404 for what is not there, 503 for a cluster without a leader …
    public let code: Int
    /// What it is in detail, one number for each reason; 0 for none.
    public let errorCode: Int
    public let text: String

    public init(code: Int, errorCode: Int = 0, text: String) { (self.code, self.errorCode, self.text) = (code, errorCode, text) }

    public var description: String { errorCode == 0 ? "\(text) (\(code))" : "\(text) (\(code), \(errorCode))" }

    /// Whether another one has written in between: the expected number was wrong. The second of two that are under way
    /// at once gets an error code of its own, without the right number.
    public var isConflict: Bool { [10_071, 10_164].contains(errorCode) }

    /// Whether there are too few servers for as many replicas as a stream is to have: "no suitable peers for
    /// placement", "insufficient resources", "replicas > 1 not supported in non-clustered mode".
    public var lacksServers: Bool { [10_005, 10_023, 10_074].contains(errorCode) }

    /// Whether there is no room for it: in the stream, which has a bound and does not discard what is old, in the
    /// account, or on the servers. What was asked for has not been done, and may be when there is room.
    public var lacksRoom: Bool {
        switch errorCode {
        case 10_002, 10_023, 10_028, 10_047: true
        // Of this one the text says which: a store may also be about to close.
        case 10_077: text.hasPrefix("maximum ") || text.holds("no space left")
        default: false
        }
    }

    /// Whether it is the servers themselves that have no room: their disks, or what they were allowed of these.
    public var isOfServers: Bool { lacksRoom && errorCode != 10_002 && !text.hasPrefix("maximum ") }

    /// "stream not found"
    public static let noStreamCode = 10_059
    /// "stream name already in use with a different configuration"
    public static let otherStreamCode = 10_058

    /// Whether it may be there in a while, and there is nothing to be told of: there is no leader, or no quorum.
    public var isPassing: Bool { code == 503 || code == 408 }

    /// What becomes of a message that a stream has not taken.
    public enum Outcome: Equatable, Sendable {
        /// There is no stream, no leader or no quorum just now, a server has failed at it, or the same message is under
        /// way: it may be taken when it is sent again.
        case tryAgain
        /// There is no room for it: it is not there, and may be taken when there is. See `lacksRoom`.
        case noRoom
        /// Another one has been written in between. See `isConflict`.
        case conflict
        /// The stream would not take it again: it is too large, or not what the stream is for.
        case refused
    }

    /// What becomes of a message that a stream has answered so.
    public var outcome: Outcome {
        if isConflict { return .conflict }
        if lacksRoom { return .noRoom }
        return code >= 500 || [404, 408, 409].contains(code) ? .tryAgain : .refused
    }
}

/// The last message of a subject.
public struct LastMessage: Equatable, Sendable {
    public let sequence: UInt64
    public let headers: MessageHeaders
    public let payload: [UInt8]

    /// Whether it marks a key of a bucket that is there no more.
    public var isDeletion: Bool { headers["KV-Operation"] != nil || headers["Nats-Marker-Reason"] != nil }
}

/// Reads what JetStream answers.
public enum JetStreamAnswer {
    /// The members of an answer in JSON. Throws the error that it tells.
    public static func members(_ message: ReceivedMessage) throws(JetStreamError) -> JSONMembers {
        if let status = message.headers.status { throw JetStreamError(code: status, text: message.headers.statusText) }
        guard let value = try? JSONValue(reading: message.payload), let members = value.object else {
            throw JetStreamError(code: 500, text: "the answer is no object of JSON")
        }
        guard let error = members["error"]?.object else { return members }
        throw JetStreamError(
            code: Int(clamping: error["code"]?.integer ?? 500), errorCode: Int(clamping: error["err_code"]?.integer ?? 0),
            text: error["description"]?.string ?? "no description")
    }

    /// The number that a stream has given a message; that of the first one, if one with its identifier came before.
    @discardableResult
    public static func sequence(acknowledgedBy message: ReceivedMessage) throws(JetStreamError) -> UInt64 {
        let members = try members(message)
        guard members["stream"]?.string != nil, let sequence = members["seq"]?.integer, sequence > 0 else {
            throw JetStreamError(code: 500, text: "the acknowledgement names no stream and number")
        }
        return UInt64(sequence)
    }

    /// The message that a stream's leader was asked for; nil if there is none.
    public static func last(_ message: ReceivedMessage) throws(JetStreamError) -> LastMessage? {
        guard let (found, sequence) = try found(message) else { return nil }
        guard let payload = Base64.decode(found["data"]?.string ?? ""), let block = Base64.decode(found["hdrs"]?.string ?? ""),
            let headers = try? block.withUnsafeBytes({ (bytes) throws(WireError) in try MessageHeaders(reading: bytes) })
        else { throw JetStreamError(code: 500, text: "the answer has no message") }
        return LastMessage(sequence: sequence, headers: headers, payload: payload)
    }

    /// The number of the message that a stream's leader was asked for; nil if there is none.
    public static func sequence(_ message: ReceivedMessage) throws(JetStreamError) -> UInt64? { try found(message)?.sequence }

    private static func found(
        _ message: ReceivedMessage
    ) throws(JetStreamError) -> (members: JSONMembers, sequence: UInt64)? {
        let members: JSONMembers
        do throws(JetStreamError) {
            members = try Self.members(message)
        } catch {
            if error.errorCode == noMessageCode { return nil }
            throw error
        }
        guard let found = members["message"]?.object, let sequence = found["seq"]?.integer, sequence > 0 else {
            throw JetStreamError(code: 500, text: "the answer has no message")
        }
        return (found, UInt64(sequence))
    }

    /// "no message found"; that there is no such stream has another one.
    private static let noMessageCode = 10_037
}

/// Which message a consumer has sent, as it stands where its acknowledgement would go:
/// `$JS.ACK.<stream>.<consumer>.<times>.<sequence>.<consumer's sequence>.<time>.<pending>`, or the same with a domain
/// and an account in front of the stream, and something behind.
public struct DeliveryMetadata: Equatable, Sendable {
    public let consumer: String
    /// Its number in the stream.
    public let sequence: UInt64
    /// How many the consumer has sent, it included.
    public let consumerSequence: UInt64
    /// When the stream took it: nanoseconds since 1970.
    public let storedAt: UInt64
    /// How many more the consumer has.
    public let pending: UInt64

    /// nil for a message of another origin.
    public init?(reply: UnsafeRawBufferPointer) {
        let tokens = reply.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard tokens.count >= 9, tokens[0].elementsEqual("$JS".utf8), tokens[1].elementsEqual("ACK".utf8) else { return nil }
        let first = tokens.count == 9 ? 5 : 7
        guard tokens.count > first + 3 else { return nil }
        let numbers = tokens[first..<(first + 4)].compactMap { UInt64(String(decoding: $0, as: UTF8.self)) }
        // No stream ever has so many.
        guard numbers.count == 4, numbers[0] < Limits.sequenceEnd, numbers[1] < Limits.sequenceEnd else { return nil }
        consumer = String(decoding: tokens[first - 2], as: UTF8.self)
        (sequence, consumerSequence, storedAt, pending) = (numbers[0], numbers[1], numbers[2], numbers[3])
    }
}

/// A message out of a stream that is followed, where it lies; valid during the call that gives it.
public struct StreamRecord {
    /// Its number in the stream, when the stream took it, and how many there are behind it.
    public let metadata: DeliveryMetadata
    public let subject: UnsafeRawBufferPointer
    /// The block of headers as it was sent, empty for none. `MessageHeaders(reading:)` reads it.
    public let headers: UnsafeRawBufferPointer
    public let payload: UnsafeRawBufferPointer
}

extension Limits {
    /// Numbers in streams are below this one.
    static let sequenceEnd: UInt64 = 1 << 62
}
