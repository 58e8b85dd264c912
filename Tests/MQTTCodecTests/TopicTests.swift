import MQTTCodec
import MartletTestKit
import Testing

@Suite struct TopicTests {
    @Test(.statement("MQTT-4.7.1-1", .v5), arguments: ["a#", "#a", "#/a", "a/#/b", "a/b#", "##", "+#", "/#/"])
    func `a multi-level wildcard is alone in its level and the last`(_ text: String) {
        #expect(TopicFilter(text) == nil)
        #expect(TopicFilter("$share/g/" + text) == nil)
    }

    @Test(.statement("MQTT-4.7.1-2", .v5), arguments: ["a+", "+a", "a/+b", "a/b+/c", "++", "/+a/"])
    func `a single-level wildcard fills its level`(_ text: String) {
        #expect(TopicFilter(text) == nil)
        #expect(TopicFilter("$share/g/" + text) == nil)
    }

    @Test(arguments: ["#", "+", "/", "//", "a", "a/#", "+/#", "/+", "+/+/+", "a//#", "$SYS/#", "$share", "$shared/a", " ", "é/+"])
    func `these are filters`(_ text: String) throws {
        let filter = try #require(TopicFilter(text))
        #expect(filter.bytes == Array(text.utf8))
        #expect(Array(filter.matchingBytes) == filter.bytes)
        #expect(filter.shareName == nil)
    }

    @Test(.statement("MQTT-4.7.3-1", .v5)) func `names and filters have at least one character`() {
        #expect(TopicName([UInt8]()) == nil)
        #expect(TopicFilter([UInt8]()) == nil)
        #expect([UInt8]().withUnsafeBytes(TopicValidation.validateName) == .emptyTopic)
    }

    @Test(.statement("MQTT-4.7.3-2", .v5)) func `names and filters hold no null character`() {
        #expect(TopicName([0x61, 0]) == nil)
        #expect(TopicFilter([0x61, 0]) == nil)
    }

    @Test(.statement("MQTT-4.7.0-1", .v5), arguments: ["#", "+", "a/#", "a/+/b", "a+", "long/enough/for/a/word/#"])
    func `a topic name holds no wildcard`(_ text: String) { #expect(TopicName(Array(text.utf8)) == nil) }

    @Test(.statement("MQTT-4.7.0-1", .v5)) func `a wildcard is found in a name of any length at any place`() {
        for count in 1..<40 {
            #expect(TopicName([UInt8](repeating: 0x2A, count: count)) != nil)
            for wildcard in [UInt8(ascii: "+"), UInt8(ascii: "#")] {
                for index in 0..<count {
                    // The neighbours of the wildcards in ASCII, which a careless word test would confuse with them.
                    var name = (0..<count).map { [0x22, 0x24, 0x2A, 0x2C][$0 % 4] as UInt8 }
                    name[index] = wildcard
                    #expect(name.withUnsafeBytes(TopicValidation.validateName) == .topicNameWithWildcard)
                }
            }
        }
    }

    @Test(.statement("MQTT-4.8.2-1", .v5), arguments: ["$share/", "$share/g", "$share//a", "$share/g/", "$share//"])
    func `a shared subscription has a name and a filter`(_ text: String) { #expect(TopicFilter(text) == nil) }

    @Test(.statement("MQTT-4.8.2-2", .v5), arguments: ["$share/+/a", "$share/#/a", "$share/g+/a", "$share/#"])
    func `a share name holds no wildcard`(_ text: String) { #expect(TopicFilter(text) == nil) }

    @Test func `a shared subscription is matched by what follows its name`() throws {
        let filter: TopicFilter = "$share/group/a/+"
        #expect(filter.isShared)
        #expect(filter.shareName == "group")
        #expect(Array(filter.matchingBytes) == Array("a/+".utf8))
        #expect(filter.matches("a/b"))
        #expect(!filter.matches("$share/group/a/b"))
        let slash: TopicFilter = "$share/g//"
        #expect(Array(slash.matchingBytes) == Array("/".utf8))
    }
}
