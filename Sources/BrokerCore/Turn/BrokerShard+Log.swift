import BrokerModel
import MQTTCodec

/// Lines for the log, in the wording of mosquitto 2.1.
extension BrokerShard {
    /// Logs a line; its text is made only when somebody wants it.
    @inline(__always)
    func log(_ topic: LogTopics, _ text: () -> String) {
        if settings.logTopics.contains(topic) { effects.append(.log(topic, text(), nil)) }
    }

    /// Logs a line about a connection's coming or going, which `connection_messages false` silences.
    @inline(__always)
    func logConnection(_ topic: LogTopics, _ text: () -> String) {
        if settings.logsConnections { log(topic, text) }
    }

    /// Logs such a line with the fields that say which connection it is about.
    @inline(never)
    func logConnection(_ topic: LogTopics, of connection: Connection, reason: String? = nil, _ text: () -> String) {
        guard settings.logsConnections, settings.logTopics.contains(topic) else { return }
        effects.append(.log(topic, text(), fields(of: connection, reason: reason)))
    }

    func fields(of connection: Connection, topic: String? = nil, reason: String? = nil) -> LogFields {
        LogFields(
            client: connection.name, user: connection.loggedUserName, address: connection.info.address, topic: topic, reason: reason
        )
    }

    /// Logs that a connection ends because of what its client did: mosquitto's line, which scripts know, and one that
    /// says what was wrong. Of a login that has failed the second one is for those who keep count of them, such as
    /// fail2ban. Where many are refused for one reason, others tell their number, and there are no lines.
    func logRefusal(
        of connection: Connection, _ reason: ReasonCode, because explanation: String, failure: LoginFailure? = nil,
        isTold: Bool = true
    ) {
        let place = connection.logPosition
        if connection.session == nil { presence.reportRefusal(of: connection, reason, failure?.words ?? explanation) }
        guard isTold else { return }
        let isLogin = [.notAuthorized, .badUserNameOrPassword, .badAuthenticationMethod, .banned].contains(reason)
        logConnection(.notice, of: connection, reason: failure?.words ?? explanation) {
            "Client \(connection.logName) \(place) \(isLogin ? "disconnected: not authorised" : Self.refusalWords(for: reason))."
        }
        guard let failure, isLogin else {
            // The client hears less than the operator, who is to know which source of logins is down.
            let told = if case .reported(let words)? = failure { "\(words)." } else { explanation }
            logConnection(.information, of: connection, reason: told) {
                [.protocolError, .malformedPacket].contains(reason)
                    ? "Protocol error from \(connection.info.address):\(connection.info.port): \(told)"
                    : "Client \(connection.logName) \(place): \(told)"
            }
            return
        }
        if failure != .banned { figures.count(.refused, connection) }
        logFailedLogin(of: connection, failure)
        banEnforcement.countFailedLogin(of: connection, failure)
    }

    /// The address comes before all that a peer can choose: nobody can have another one taken for his.
    private func logFailedLogin(of connection: Connection, _ failure: LoginFailure) {
        guard settings.logTopics.contains(.notice) else { return }
        let user = connection.loggedUserName.map { ", user '\($0)'" } ?? ""
        let text = "Login failed \(connection.origin): \(failure.words)\(user), client '\(connection.name)'."
        effects.append(.log(.notice, text, fields(of: connection, reason: failure.words)))
    }

    private static func refusalWords(for reason: ReasonCode) -> String {
        switch reason {
        case .packetTooLarge: "disconnected: oversize packet"
        case .qosNotSupported, .retainNotSupported:
            "disconnected: using not allowed feature (QoS too high, retain not supported, or bad AUTH method)"
        case .administrativeAction: "been disconnected by administrative action"
        default: "disconnected: \(reason)"
        }
    }
}

extension Connection {
    /// Where it comes from, to stand in a sentence: `from 192.0.2.7 port 50312`.
    var origin: String { info.port == 0 ? "from \(info.address)" : "from \(info.address) port \(info.port)" }

    /// Where it comes from, as lines about its end have it: `[192.0.2.7:50312]`.
    var logPosition: String { "[\(info.address):\(info.port)]" }

    /// What lines about its end call it: its address before it has an identifier.
    var logName: String { knownName ?? info.address }

    /// The user that it is, or wants to be, as the log shows it.
    var loggedUserName: String? { (client.userName ?? extras?.pendingConnect?.userName).map { LoggedText($0.bytes).description } }
}

/// The core makes strings for the log alone: what a peer has named goes into them as the log shows it.
extension DefaultStringInterpolation {
    mutating func appendInterpolation(_ text: EncodedString) { appendInterpolation(LoggedText(text.bytes)) }

    mutating func appendInterpolation(_ topic: TopicName) { appendInterpolation(LoggedText(topic.bytes)) }

    mutating func appendInterpolation(_ filter: TopicFilter) { appendInterpolation(LoggedText(filter.bytes)) }
}

/// Puts a line of the log together in one piece of memory: interpolation grows a string again and again, and every
/// client that comes and goes makes three lines.
///
///     String.line(room: 64) { $0.write("Client "); $0.write(identifier); $0.write(" closed its connection.") }
///
/// What has no room is left out.
struct LineWriter {
    private let buffer: UnsafeMutableBufferPointer<UInt8>
    fileprivate private(set) var count = 0

    fileprivate init(_ buffer: UnsafeMutableBufferPointer<UInt8>) { self.buffer = buffer }

    mutating func write(_ words: StaticString) {
        write(UnsafeRawBufferPointer(start: words.utf8Start, count: words.utf8CodeUnitCount))
    }

    mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
    }

    /// What a peer called something, as `LoggedText` shows it.
    mutating func write(_ text: EncodedString) {
        guard text.count <= Self.plainBytes else { return write(LoggedText(text.bytes).description) }
        text.bytes.withUnsafeBytes { write($0) }
    }

    mutating func write(_ number: UInt16) {
        var divisor: UInt16 = 10_000
        while divisor > 1, number < divisor { divisor /= 10 }
        while divisor > 0 {
            write(digit: UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    /// - Parameter digit: below 10.
    mutating func write(digit: UInt8) {
        guard count < buffer.count else { return }
        buffer[count] = UInt8(ascii: "0") &+ digit
        count += 1
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, let start = buffer.baseAddress, bytes.count <= buffer.count - count else { return }
        UnsafeMutableRawPointer(start + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    /// What `write` of the text takes at most, with the dots behind one that is cut.
    static func room(for text: EncodedString?) -> Int { text.map { min($0.count + 3, longestBytes) } ?? 0 }

    /// A text of no more bytes is certainly shown as it is.
    private static let plainBytes = 128
    /// More than `LoggedText` ever shows.
    private static let longestBytes = 512
}

extension String {
    /// - Parameters:
    ///   - room: the bytes of the line at most.
    ///   - write: writes it.
    static func line(room: Int, _ write: (inout LineWriter) -> Void) -> String {
        String(unsafeUninitializedCapacity: room) { buffer in
            var writer = LineWriter(buffer)
            write(&writer)
            return writer.count
        }
    }
}
