import BrokerModel
import Bytes
import MQTTCodec
import Testing

@testable import Cluster

struct BundleTests {
    private let header = Bundle.header(Bundle.Origin(node: NodeID(5), queue: 3), number: 200)

    private func record(_ texts: [String], retain: Bool = false, left: UInt64? = nil) -> [UInt8] {
        texts.reduce(header) { bytes, text in
            bytes
                + Bundle.message(text, payload: Array(text.utf8), qos: .exactlyOnce) {
                    ($0.retain, $0.millisecondsLeft) = (retain, left)
                }
        }
    }

    private func read(_ bytes: [UInt8]) -> (texts: [String], isWhole: Bool)? {
        bytes.withUnsafeBytes { bytes in
            guard let bundle = Bundle(bytes) else { return nil }
            #expect(bundle.origin == Bundle.Origin(node: NodeID(5), queue: 3) && bundle.number == 200)
            var texts: [String] = []
            let isWhole = Bundle.forEach(bytes) { entry in
                guard case .message(let message) = entry else { return }
                #expect(message.topic.elementsEqual(message.payload) && message.qos == .exactlyOnce)
                texts.append(String(decoding: message.topic, as: UTF8.self))
            }
            return (texts, isWhole == true)
        }
    }

    @Test func `a record has these bytes`() {
        let head: [UInt8] = [3, 0, 0, 0, 0, 0, 0, 0, 5, 3, 0xC8, 0x01]
        #expect(record(["a"]) == head + [1, 5, 2, 1, 97, 0, 97])
        #expect(record(["a"], retain: true, left: 300) == head + [1, 7, 0b1110, 0xAC, 0x02, 1, 97, 0, 97])
    }

    @Test func `a record is read as it was written, and to its last whole entry if it is cut`() {
        let texts = ["a", "b/c", String(repeating: "d", count: 300)]
        let bytes = record(texts)
        #expect(read(bytes)?.texts == texts && read(bytes)?.isWhole == true)
        #expect(read(record([]))?.isWhole == true)
        for count in 12..<bytes.count {
            guard let found = read(Array(bytes.prefix(count))) else {
                Issue.record("the header is whole")
                return
            }
            #expect(found.texts == Array(texts.prefix(found.texts.count)))
            #expect(found.isWhole == [12, 19, 30].contains(count))
        }
    }

    @Test func `a message names whose turn it is in share groups, and a record says up to where its node is done`() {
        let shares = [LoggedShare(node: 1, group: 2, member: 300), LoggedShare(node: .max, group: .max)]
        var bytes =
            header
            + Bundle.message("a") {
                ($0.shares, $0.hops, $0.nameBefore) = (shares, 2, MessageName(rawValue: 0x8000_0000_0000_0123))
            }
        bytes.withUnsafeBytes { bytes in
            #expect(Bundle(bytes)?.dispatchedThrough == nil)
            var found: [LoggedShare] = []
            _ = Bundle.forEach(bytes) { entry in
                guard case .message(let message) = entry else { return }
                found = message.shares
                #expect(message.hops == 2 && message.topic.elementsEqual([97]))
                #expect(message.nameBefore.rawValue == 0x8000_0000_0000_0123)
            }
            #expect(found == shares)
        }
        bytes += Bundle.encode(.dispatched(through: 7)) + Bundle.encode(.dispatched(through: 500))
        bytes.withUnsafeBytes { bytes in
            #expect(Bundle(bytes)?.dispatchedThrough == 500 && Bundle.forEach(bytes) { _ in } == true)
            for count in 14..<bytes.count { _ = Bundle.forEach(UnsafeRawBufferPointer(rebasing: bytes[..<count])) { _ in } }
        }
    }

    @Test func `a record says for whom its node would dispatch`() {
        let gone = [NodeID(1), NodeID(0x8000_0000_0000_00ff)]
        let bytes =
            header + gone.flatMap { Bundle.encode(.successor(of: $0)) } + Bundle.encode(.gone(NodeID(9)))
            + Bundle.encode(.dispatched(through: 7))
        bytes.withUnsafeBytes { bytes in
            #expect(Bundle(bytes)?.dispatchedThrough == 7 && Bundle(bytes)?.successorOf == gone)
            #expect(Bundle(bytes)?.gone == gone + [NodeID(9)])
            #expect(Bundle(bytes)?.entries.isWhole == true)
            for count in 14..<bytes.count { _ = Bundle(UnsafeRawBufferPointer(rebasing: bytes[..<count])) }
        }
    }

    @Test func `a record has fewer messages than a message's name can tell apart`() {
        #expect(Limits.recordBytesMax / Bundle.message("a").count < 1 << 13)
    }

    @Test func `a message names its publisher`() {
        let bytes = header + Bundle.message("a") { $0.publisher = 0x0102_0304_0506_0708 }
        #expect(Array(bytes.suffix(14)) == [1, 12, 17, 1, 2, 3, 4, 5, 6, 7, 8, 1, 97, 0])
        bytes.withUnsafeBytes { bytes in
            let isWhole = Bundle.forEach(bytes) { entry in
                guard case .message(let message) = entry else { return }
                #expect(message.publisher == 0x0102_0304_0506_0708)
            }
            #expect(isWhole == true)
        }
    }

    @Test func `another version, another kind of entry and a topic that is none are not read`() {
        var bytes = record(["a"])
        bytes[0] = 1
        bytes.withUnsafeBytes { #expect(Bundle($0) == nil) }
        bytes = record(["a"])
        bytes[12] = 9
        #expect(read(bytes)?.isWhole == false)
        // What is said of nodes holds, and messages end there.
        bytes += Bundle.encode(.gone(NodeID(7))) + record(["b"]).dropFirst(12)
        bytes.withUnsafeBytes { #expect(Bundle($0)?.gone == [NodeID(7)] && Bundle($0)?.entries.messages.isEmpty == true) }
        #expect(read(record(["#"]))?.isWhole == false)
        #expect(read(record([""]))?.isWhole == false)
    }

    @Test func `a will names its session and its connection`() {
        var entry: [UInt8] = []
        LogEntry.append(will: Bundle.messageBody("a"), WillName(epoch: 300, number: 5), of: [97], to: &entry)
        #expect(entry == [2, 9, 1, 97, 0xAC, 0x02, 5, 1, 1, 97, 0])
        (header + entry).withUnsafeBytes { all in
            let isWhole = Bundle.forEach(all) { entry in
                guard case .will(let session, WillName(epoch: 300, number: 5), let message) = entry else {
                    Issue.record("another entry")
                    return
                }
                #expect(session.elementsEqual([97]) && message.topic.elementsEqual([97]) && message.qos == .atLeastOnce)
            }
            #expect(isWhole == true)
        }
    }

    @Test func `each connection's will counts once, and none behind a later one`() {
        var order = WillOrder()
        let wills: [(String, UInt64, UInt64)] = [
            ("a", 1, 1), ("a", 1, 1), ("b", 1, 9), ("a", 1, 2), ("a", 3, 1), ("a", 2, 9), ("b", 2, 1),
        ]
        let counted = wills.map { order.counts(Array($0.0.utf8), WillName(epoch: $0.1, number: $0.2)) }
        #expect(counted == [true, false, true, true, true, false, true])
    }

    @Test func `a will with a record of its own counts once, whoever brings it, and says the same`() {
        var order = LogOrder()
        let entry = Bundle.messageBody("a", payload: [97]) {
            ($0.retain, $0.millisecondsLeft, $0.publisher) = (true, 9, 77)
        }
        func counts(_ number: UInt64, by node: UInt64) -> Bool {
            let will = SavedWill(name: WillName(epoch: 300, number: number), delayInterval: 5, message: entry)
            return Bundle.record(of: will, of: [1, 2], by: NodeID(node)).withUnsafeBytes { bytes in
                guard let bundle = Bundle(bytes) else { return false }
                var texts: [String] = []
                let isWhole = Bundle.forEach(bytes) { entry in
                    guard case .will(let session, let name, let message) = entry else { return }
                    texts.append("\(Array(session)) \(name.number) \(message.retain) \(message.publisher) \(message.payload.count)")
                }
                #expect(isWhole == true && texts == ["[1, 2] \(number) true 77 1"])
                return order.counts(bundle, at: 1)
            }
        }
        #expect(counts(1, by: 5) && !counts(1, by: 6) && counts(2, by: 6) && !counts(1, by: 7) && !counts(2, by: 5))
    }

    @Test func `a record counts once, and not behind a later one of its queue`() {
        var order = LogOrder()
        func counts(_ node: UInt64, _ queue: UInt8, _ number: UInt64) -> Bool {
            Bundle.header(Bundle.Origin(node: NodeID(node), queue: queue), number: number).withUnsafeBytes { bytes in
                guard let bundle = Bundle(bytes) else { return false }
                return order.counts(bundle, at: 1)
            }
        }
        #expect(counts(1, 0, 1) && counts(1, 0, 2) && counts(1, 1, 1) && counts(2, 0, 1))
        #expect(!counts(1, 0, 2) && !counts(1, 0, 1))
        #expect(counts(1, 0, 4))
        #expect(!counts(1, 0, 3))
    }

    @Test func `a record does not count behind the word that its node is gone, unless who says so is gone itself`() {
        var order = LogOrder()
        var sequence: UInt64 = 0
        func counts(_ node: UInt64, _ queue: UInt8, _ number: UInt64, _ said: Bundle.Word? = nil) -> Bool {
            sequence += 1
            let header = Bundle.header(Bundle.Origin(node: NodeID(node), queue: queue), number: number)
            return (header + (said.map { Bundle.encode($0) } ?? [])).withUnsafeBytes { bytes in
                guard let bundle = Bundle(bytes) else { return false }
                return order.counts(bundle, at: sequence)
            }
        }
        #expect(counts(1, 0, 1) && counts(2, 0, 1) && counts(3, 0, 1))
        // Each of two says so of the other one: the first does.
        #expect(counts(1, 1, 1, .gone(NodeID(2))))
        #expect(!counts(2, 0, 2) && !counts(2, 1, 1, .gone(NodeID(1))) && !counts(2, 2, 1, .successor(of: NodeID(3))))
        #expect(counts(1, 0, 2) && counts(3, 0, 2, .successor(of: NodeID(1))))
        #expect(!counts(1, 0, 3) && counts(3, 0, 3))
        // Who begins behind the word has it from who has read it; who begins with it reads it.
        let read = order
        for (start, heard) in [(4 as UInt64, false), (5, true)] {
            order = LogOrder(from: start, knowing: read)
            #expect(counts(2, 0, 9) != heard)
        }
    }

    @Test(
        arguments: [
            (.mark, 0), (.received(digest: 0), 1), (.received(digest: .max), 65535), (.released, 256), (.acknowledged, 7),
            (.sent(MessageName(rawValue: .max)), 1), (.sent(.none), 65535), (.dispatched(MessageName(rawValue: 9)), 0),
            (.progress(SessionProgress(sequences: [7, .max, 0], streams: .max)), 0),
            (.progress(SessionProgress(sequences: [], streams: 1, subscriptionsAfter: 0)), 0),
            (.progress(SessionProgress(sequences: [3], streams: 1, subscriptionsAfter: 1 << 40)), 0),
            (.subscribed(SessionSubscription(filter: Array("a/+".utf8), terms: .max, wantsRetained: true)), 0),
            (.subscribed(SessionSubscription(filter: [], terms: 0, wantsRetained: false)), 0),
            (.unsubscribed(filter: Array("a/#".utf8)), 0), (.unsubscribed(filter: []), 0),
            (.progress(SessionProgress(sequences: [1], streams: 0, receipts: [.init(packetIdentifier: 65535, digest: .max)])), 0),
        ] as [(FlowStep.Kind, UInt16)])
    func `a step names its session, its place, its packet identifier and what has become of that`(
        kind: FlowStep.Kind, packetIdentifier: UInt16
    ) {
        for finished in [[], [1], [65535, 256]] as [[UInt16]] {
            var step = FlowStep(kind, packetIdentifier, at: FlowStep.Place(epoch: 300, number: .max))
            step.finished = finished
            let entry = Bundle.step(step)
            var found: [FlowStep] = []
            (record(["a"]) + entry).withUnsafeBytes { all in
                let isWhole = Bundle.forEach(all) { entry in
                    guard case .step(let name, let step) = entry else { return }
                    #expect(name.elementsEqual([97]))
                    found.append(step)
                }
                // Of what clients send nothing has ended with it.
                let isStep = finished.isEmpty || step.isOfDelivery
                #expect(isWhole == isStep && found == (isStep ? [step] : []))
            }
            #expect(read(record(["a"]) + entry.dropLast())?.isWhole == false)
        }
        // What was dispatched, a mark and what is of the session have no packet identifier; all others have one.
        let other = FlowStep(kind, packetIdentifier == 0 ? 1 : 0, at: .start)
        #expect(read(record(["a"]) + Bundle.step(other))?.isWhole == false)
    }

    @Test func `a bundle says of which sessions it has how far they have come`() {
        let progress = SessionProgress(
            sequences: [1_000_000, 1_000_001, 999_999], streams: 0x1234_5678, receipts: [.init(packetIdentifier: 3, digest: 9)])
        let place = FlowStep.Place(epoch: 1_700_000_000_000, number: 435_200_000_000_000_000)
        let name = "a client's name"
        let step = FlowStep(.progress(progress), 0, at: place)
        let entry = Bundle.step(step, of: name)
        // Each second one of each session that moves.
        #expect(entry.count == 54)
        let others =
            Bundle.step(FlowStep(.acknowledged, 1, at: place), of: name) + Bundle.step(.nothing, of: name)
            + Bundle.encode(.gone(NodeID(6)))
        for bytes in [record(["a"]) + others + entry + others, record([]) + entry] {
            var table = ProgressTable()
            table.read(bytes)
            #expect(table.progress(of: Array(name.utf8)) == step && table.progress(of: [1]) == nil)
        }
    }

    @Test func `of sessions whose progress was heard last a node knows it, within its bound`() {
        var table = ProgressTable(bytesMax: 40_000)
        func learn(_ number: Int, _ sequence: UInt64) {
            let progress = SessionProgress(sequences: [sequence], streams: 1)
            let step = FlowStep(.progress(progress), 0, at: FlowStep.Place(epoch: 1, number: sequence))
            table.read(header + Bundle.step(step, of: "client \(number)"))
        }
        func sequence(_ number: Int) -> UInt64? {
            table.progress(of: Array("client \(number)".utf8))?.progress?.sequences[0]
        }
        for number in 0..<1000 { learn(number, UInt64(number + 1)) }
        #expect(sequence(999) == 1000 && sequence(950) == 951 && sequence(0) == nil)
        // What moves all the time stays.
        for number in 0..<1000 {
            learn(number, 7)
            learn(5, UInt64(number + 1))
        }
        #expect(sequence(5) == 1000)
    }

    @Test func `a step of a kind that is not known is not read`() {
        var entry = Bundle.step(.nothing)
        #expect(entry == [3, 6, 1, 97, 0, 0, 0, 0] && read(header + entry)?.isWhole == true)
        entry[7] = 9
        #expect(read(header + entry)?.isWhole == false)
    }
}

extension Bundle {
    /// What a record may have.
    enum Entry {
        case message(LogMessage)
        case will(session: UnsafeRawBufferPointer, WillName, LogMessage)
        case step(session: UnsafeRawBufferPointer, FlowStep)
        case word(kind: UInt8, UnsafeRawBufferPointer)
    }

    /// The entry of a message.
    static func message(
        _ topic: String, payload: [UInt8] = [], qos: QoS = .atLeastOnce, _ change: (inout LogMessage) -> Void = { _ in }
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        withMessage(topic, payload, qos, change) { LogEntry.append($0, to: &bytes) }
        return bytes
    }

    /// The message of a will.
    static func messageBody(
        _ topic: String, payload: [UInt8] = [], _ change: (inout LogMessage) -> Void = { _ in }
    ) -> [UInt8] {
        withMessage(topic, payload, .atLeastOnce, change) { $0.entry }
    }

    private static func withMessage<Result>(
        _ topic: String, _ payload: [UInt8], _ qos: QoS, _ change: (inout LogMessage) -> Void, _ body: (LogMessage) -> Result
    ) -> Result {
        Array(topic.utf8).withUnsafeBytes { topic in
            payload.withUnsafeBytes { payload in
                let none = UnsafeRawBufferPointer(start: nil, count: 0)
                var message = LogMessage(topic: topic, properties: none, payload: payload, qos: qos)
                change(&message)
                return body(message)
            }
        }
    }

    /// The entry of a session's step.
    static func step(_ step: FlowStep, of session: String = "a") -> [UInt8] {
        var bytes: [UInt8] = []
        Array(session.utf8).withUnsafeBytes { LogEntry.append(step, of: $0, to: &bytes) }
        return bytes
    }

    /// Gives each entry of a record to `body`, in order, as far as they can be read.
    ///
    /// - Returns: whether all can be read; nil if it is no record.
    static func forEach(_ record: UnsafeRawBufferPointer, _ body: (Entry) -> Void) -> Bool? {
        guard let bundle = Bundle(record) else { return nil }
        var reader = EnvelopeReader(record)
        _ = (reader.byte(), reader.fixed64(), reader.byte(), reader.integer())
        var (messages, steps, wills) = (bundle.entries.messages[...], bundle.entries.steps[...], bundle.entries.wills[...])
        while !reader.isAtEnd {
            guard let kind = reader.byte(), let bytes = reader.counted() else { break }
            if kind == LogEntry.stepKind {
                guard let step = steps.popFirst() else { break }
                record[step.session].withBytes { body(.step(session: $0, step.step)) }
            } else if kind == LogEntry.messageKind || kind == LogEntry.willKind {
                guard let found = messages.popFirst() else { break }
                #expect(found.isWill == (kind == LogEntry.willKind))
                var message = LogMessage(
                    topic: UnsafeRawBufferPointer(rebasing: record[found.topic]),
                    properties: UnsafeRawBufferPointer(rebasing: record[found.properties]),
                    payload: UnsafeRawBufferPointer(rebasing: record[found.payload]), qos: found.qos, retain: found.retain,
                    millisecondsLeft: found.millisecondsLeft)
                (message.publisher, message.shares, message.hops) = (found.publisher, found.shares, found.hops)
                message.nameBefore = found.nameBefore
                if kind == LogEntry.messageKind {
                    body(.message(message))
                } else if let will = wills.popFirst() {
                    will.session.withUnsafeBytes { body(.will(session: $0, will.name, message)) }
                }
            } else {
                body(.word(kind: kind, bytes))
            }
        }
        #expect(messages.isEmpty && steps.isEmpty && wills.isEmpty)
        return bundle.entries.isWhole
    }
}

extension Slice<UnsafeRawBufferPointer> {
    fileprivate func withBytes(_ body: (UnsafeRawBufferPointer) -> Void) { body(UnsafeRawBufferPointer(rebasing: self)) }
}

extension ProgressTable {
    /// Takes what a record says.
    fileprivate mutating func read(_ record: [UInt8]) {
        record.withUnsafeBytes { bytes in
            if let bundle = Bundle(bytes) { self.record(bundle, bytes) } else { Issue.record("the header is whole") }
        }
    }
}
