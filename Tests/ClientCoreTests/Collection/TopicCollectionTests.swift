import ClientCore
import MQTTCodec
import Testing

@Suite struct TopicCollectionTests {
    private var collection = TopicCollection(entriesMax: 100, bytesMax: 10_000, nonce: 7)

    private func message(
        _ topic: TopicName, _ payload: Payload, retain: Bool = true, correlation: [UInt8]? = nil, identifier: UInt32? = nil
    )
        -> ReceivedMessage
    {
        var message = ReceivedMessage(
            topic: topic, payload: payload, qos: .atMostOnce, retain: retain, duplicate: false, token: nil)
        message.properties.correlationData = correlation
        message.properties.subscriptionIdentifiers = identifier.map { [$0] } ?? []
        return message
    }

    private mutating func subscribed(_ values: (TopicName, Payload)...) {
        collection.begin()
        for (topic, payload) in values { collection.received(message(topic, payload)) }
        collection.ended()
        _ = collection.commit()
    }

    @Test mutating func `nothing shows before the end mark, and then all in one commit`() {
        collection.begin()
        collection.received(message("a", "1"))
        collection.received(message("b", "2"))
        #expect(collection.commit().isEmpty)
        collection.ended()
        #expect(
            collection.commit().steps == [
                CollectionStep("a", old: nil, new: CollectionValue("1", .confirmed)),
                CollectionStep("b", old: nil, new: CollectionValue("2", .confirmed)),
            ])
    }

    @Test mutating func `after another subscription exactly what is missing goes, and what is the same is not touched`() {
        subscribed(("a", "1"), ("b", "2"), ("c", "3"), ("z", "9"))
        collection.begin()
        collection.received(message("d", "4"))
        collection.received(message("b", "2"))
        collection.received(message("c", "5"))
        #expect(collection.commit().isEmpty)
        collection.ended()
        #expect(
            collection.commit().steps == [
                CollectionStep("a", old: CollectionValue("1", .confirmed), new: nil),
                CollectionStep("z", old: CollectionValue("9", .confirmed), new: nil),
                CollectionStep("d", old: nil, new: CollectionValue("4", .confirmed)),
                CollectionStep("c", old: CollectionValue("3", .confirmed), new: CollectionValue("5", .confirmed)),
            ])
    }

    @Test mutating func `a cut in the middle of a subscription takes nothing away`() {
        subscribed(("a", "1"), ("b", "2"))
        collection.begin()
        collection.received(message("b", "2"))
        collection.begin()
        collection.received(message("a", "1"))
        collection.received(message("b", "2"))
        collection.ended()
        #expect(collection.commit().isEmpty)
    }

    @Test mutating func `what is cleared goes, and what is not retained does not count`() {
        subscribed(("a", "1"))
        collection.received(message("a", "passing", retain: false))
        #expect(collection.commit().isEmpty)
        collection.received(message("a", ""))
        #expect(collection.commit().steps == [CollectionStep("a", old: CollectionValue("1", .confirmed), new: nil)])
    }

    @Test mutating func `before MQTT 5.0 all that comes counts, as RETAIN does not tell`() {
        collection.begin(.v311)
        collection.ended()
        collection.received(message("a", "1", retain: false))
        #expect(collection["a"] == CollectionValue("1", .confirmed))
    }

    @Test mutating func `what a broker had queued for the subscription before does not count beside the new one`() {
        collection.begin()
        collection.received(message("a", "new", identifier: 2))
        collection.received(message("a", "old", identifier: 1))
        collection.received(message("gone", "old", identifier: 1))
        collection.ended(identifier: 2)
        #expect(collection.topics == ["a"])
        #expect(collection["a"]?.content == "new")
    }

    @Test mutating func `a message that came for another subscription to the filter counts, whatever its RETAIN`() {
        collection.begin()
        collection.received(message("own", "passing", retain: false, identifier: 2))
        collection.received(message("a", "another's", retain: false, identifier: 3))
        collection.ended(identifier: 2)
        #expect(collection.topics == ["a"])
        collection.received(message("own", "passing", retain: false, identifier: 2))
        collection.received(message("b", "another's", retain: false, identifier: 3))
        #expect(Set(collection.topics) == ["a", "b"])
    }

    @Test mutating func `what the disk has shows at once, unchecked, until the server has been asked`() {
        collection.restore([("a", "1"), ("b", "2")])
        let first = collection.commit()
        #expect(first.steps.map(\.new) == [CollectionValue("1", .stored), CollectionValue("2", .stored)])
        #expect(first.stored.isEmpty)
        collection.begin()
        collection.received(message("a", "1"))
        collection.ended()
        let second = collection.commit()
        #expect(
            second.steps == [
                CollectionStep("b", old: CollectionValue("2", .stored), new: nil),
                CollectionStep("a", old: CollectionValue("1", .stored), new: CollectionValue("1", .confirmed)),
            ])
        #expect(second.stored.map(\.topic) == ["b"])
    }

    @Test mutating func `a Content Type belongs to what is shown, stored and bounded`() {
        subscribed(("a", "1"))
        var typed = message("a", "1")
        typed.properties.contentType = "text/plain"
        collection.received(typed)
        let commit = collection.commit()
        let content = EntryContent("1", contentType: "text/plain")
        #expect(
            commit.steps == [
                CollectionStep("a", old: CollectionValue("1", .confirmed), new: CollectionValue(content, .confirmed))
            ])
        #expect(commit.stored.map(\.content) == [content])
        typed.properties.contentType = EncodedString(String(repeating: "x", count: 9_999))
        collection.begin()
        collection.received(typed)
        collection.ended()
        #expect(collection.omittedCount == 1 && collection.topics.isEmpty)
    }

    @Test mutating func `a local write shows at once and stays until it comes back`() {
        subscribed(("a", "1"))
        let (number, data) = collection.write("a", "2")
        #expect(
            collection.commit().steps == [
                CollectionStep("a", old: CollectionValue("1", .confirmed), new: CollectionValue("2", .pending))
            ])
        collection.acknowledged(number)
        collection.received(message("a", "another's, which the server took before"))
        let taken = collection.commit()
        #expect(taken.steps.isEmpty, "the local write covers it")
        #expect(taken.stored.map(\.content) == ["2"], "the server has it")
        collection.received(message("a", "2", correlation: data))
        let commit = collection.commit()
        #expect(commit.confirmed == [number])
        #expect(commit.steps.map(\.new) == [CollectionValue("2", .confirmed)])
        #expect(commit.stored.isEmpty)
    }

    @Test mutating func `what was stored of a write that does not come back is what the server has told again`() {
        subscribed(("a", "1"))
        let number = collection.write("a", "2").number
        collection.acknowledged(number)
        #expect(collection.commit().stored.map(\.content) == ["2"])
        collection.refused(number)
        let commit = collection.commit()
        #expect(commit.stored.map(\.content) == ["1"])
        #expect(commit.steps.map(\.new) == [CollectionValue("1", .confirmed)])
    }

    @Test mutating func `a write of an earlier run is known by the mark of its message`() {
        collection.restore([("a", "1")])
        let number = collection.restoreWrite("a", "2", correlationData: Array(repeating: 7, count: 16))
        let removal = collection.restoreWrite("b", nil, correlationData: Array(repeating: 8, count: 16))
        _ = collection.commit()
        #expect(collection["a"] == CollectionValue("2", .pending))
        collection.begin()
        collection.received(message("a", "1"))
        collection.ended()
        collection.published(number)
        collection.acknowledged(number)
        collection.received(message("a", "2", correlation: Array(repeating: 7, count: 16)))
        #expect(collection.commit().confirmed == [number])
        collection.received(message("b", "", correlation: Array(repeating: 8, count: 16)))
        #expect(collection.commit().confirmed == [removal])
    }

    @Test mutating func `a refused write gives way to what was there before`() {
        subscribed(("a", "1"))
        let first = collection.write("a", "2").number
        let second = collection.write("a", nil).number
        let other = collection.write("b", "new").number
        _ = collection.commit()
        #expect(collection["a"] == nil)
        collection.refused(second)
        #expect(collection["a"] == CollectionValue("2", .pending))
        collection.refused(first)
        collection.refused(other)
        let steps = collection.commit().steps
        #expect(
            steps == [
                CollectionStep("a", old: nil, new: CollectionValue("1", .confirmed)),
                CollectionStep("b", old: CollectionValue("new", .pending), new: nil),
            ])
    }

    @Test mutating func `the program's own values show where the server has none, and are never stored`() {
        subscribed(("a", "1"))
        collection.setLocal("a", "mine")
        collection.setLocal("b", "mine")
        let commit = collection.commit()
        #expect(commit.steps == [CollectionStep("b", old: nil, new: CollectionValue("mine", .local))] && commit.stored.isEmpty)
        #expect(Set(collection.topics) == ["a", "b"])
        collection.received(message("b", "2"))
        collection.received(message("a", ""))
        #expect(
            collection.commit().steps == [
                CollectionStep("b", old: CollectionValue("mine", .local), new: CollectionValue("2", .confirmed)),
                CollectionStep("a", old: CollectionValue("1", .confirmed), new: CollectionValue("mine", .local)),
            ])
        subscribed()
        #expect(collection["b"] == CollectionValue("mine", .local), "a new picture without it shows it again")
        collection.removeAllLocal()
        #expect(collection.commit().steps.map(\.new) == [nil, nil] && collection.topics.isEmpty)
    }

    @Test mutating func `a write that is confirmed takes the program's own value away, and one that is refused does not`() {
        subscribed()
        collection.setLocal("a", "mine")
        collection.refused(collection.write("a", nil).number)
        #expect(collection["a"] == CollectionValue("mine", .local))
        let (_, mark) = collection.write("a", nil)
        #expect(collection["a"] == nil)
        collection.received(message("a", "", correlation: mark))
        #expect(collection["a"] == nil)
        let (number, _) = collection.write("a", "2")
        collection.setLocal("a", "later")
        collection.begin()
        collection.acknowledged(number)
        collection.ended()
        #expect(collection["a"] == nil, "what another client has removed does not come back")
    }

    @Test mutating func `a write whose echo is lost is decided by the next subscription`() {
        subscribed(("a", "1"))
        let number = collection.write("a", "2").number
        collection.acknowledged(number)
        collection.begin()
        collection.received(message("a", "3"))
        collection.ended()
        #expect(collection.commit().confirmed == [number])
        #expect(collection["a"] == CollectionValue("3", .confirmed))
    }

    @Test mutating func `a removal that was in the server before the picture, and is acknowledged after it, is confirmed by that`()
    {
        subscribed(("a", "1"))
        let number = collection.write("a", nil).number
        collection.begin()
        collection.ended()
        #expect(collection.isPending(number))
        collection.acknowledged(number)
        #expect(collection.commit().confirmed == [number])
        #expect(collection["a"] == nil)
    }

    @Test mutating func `a later write that comes back covers an earlier one, which waits for its answer alone`() {
        subscribed()
        let first = collection.write("a", "1").number
        let (second, data) = collection.write("a", "2")
        collection.received(message("a", "2", correlation: data))
        #expect(collection["a"] == CollectionValue("2", .confirmed))
        #expect(collection.commit().confirmed == [second])
        #expect(collection.isPending(first))
        collection.acknowledged(first)
        #expect(collection.commit().confirmed == [first])
    }

    @Test mutating func `before MQTT 5.0 a write is known by its payload`() {
        collection.begin(.v311)
        collection.ended()
        let number = collection.write("a", "1").number
        collection.received(message("a", "another's", retain: false))
        #expect(collection.isPending(number))
        collection.received(message("a", "1", retain: false))
        #expect(collection.commit().confirmed == [number])
    }

    @Test mutating func `more topics than fit are left out and counted`() {
        collection = TopicCollection(entriesMax: 2, bytesMax: 10, nonce: 7)
        subscribed(("a", "1"), ("b", "123456789"), ("c", "3"), ("d", "4"))
        #expect(Set(collection.topics) == ["a", "c"])
        #expect(collection.omittedCount == 2)
        collection.received(message("a", ""))
        collection.received(message("d", "4"))
        #expect(Set(collection.topics) == ["c", "d"])
    }

    @Test func `steps of several commits are merged into those of one`() {
        let (one, two) = (CollectionValue("1", .confirmed), CollectionValue("2", .confirmed))
        let steps = [
            CollectionStep("a", old: nil, new: one), CollectionStep("b", old: one, new: two),
            CollectionStep("a", old: one, new: nil),
            CollectionStep("c", old: one, new: nil), CollectionStep("c", old: nil, new: two),
            CollectionStep("b", old: two, new: nil),
        ]
        #expect(
            CollectionStep.merged(steps) == [
                CollectionStep("b", old: one, new: nil), CollectionStep("c", old: one, new: two),
            ])
    }
}
