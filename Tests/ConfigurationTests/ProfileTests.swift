import Configuration
import Testing

/// `martlet_profile`: one line that stands for many.
@Suite struct ProfileTests {
    /// What the profile sets, value by value, written out: whoever changes the profile changes what strangers may do.
    @Test func `the profile internet bounds what a stranger could make grow`() {
        var expected = read("").configuration
        expected.general.profile = .internet
        expected.general.connectTimeoutSeconds = 10
        expected.limits.clientsMax = 50_000
        expected.limits.connectionsMax = 20_000
        expected.limits.memoryBytesMax = 2_000_000_000
        expected.limits.packet.bytesMax = 262_144
        expected.limits.packet.topicLevelsMax = 20
        expected.limits.packet.topicBytesMax = 1024
        expected.limits.queue.inflightBytesMax = 1_000_000
        expected.limits.queue.messagesMax = 1000
        expected.limits.queue.bytesMax = 4_000_000
        expected.limits.subscriptionsPerClientMax = 100
        expected.limits.outputBytesMax = 4_000_000
        expected.limits.messagesPerSecondMax = 1000
        expected.limits.bytesPerSecondMax = 4_000_000
        expected.limits.connectionsPerSecondPerAddressMax = 50
        expected.limits.keepAliveSecondsMax = 1200
        expected.limits.persistentClientExpirationSeconds = 14 * 86400
        expected.limits.sessionExpiryIntervalSecondsMax = 14 * 86400
        expected.persistence.bytesMax = 4_000_000_000
        let result = read("martlet_profile internet")
        #expect(result.texts == [])
        #expect(result.configuration == expected)
    }

    @Test(arguments: ConfigurationProfile.allCases) func `a profile is what its lines are`(_ profile: ConfigurationProfile) {
        var written = read(profile.lines.map { "\($0.name) \($0.value)\n" }.joined())
        #expect(written.texts == [])
        written.configuration.general.profile = profile
        #expect(read("martlet_profile \(profile.rawValue)").configuration == written.configuration)
    }

    @Test(arguments: ConfigurationProfile.internet.lines.map(\.name))
    func `a line of one's own wins over the profile, wherever it stands`(_ name: String) throws {
        let option = try #require(ConfigurationOption.named(name))
        let own = "\(name) \(option.defaultText ?? "9d")"
        let alone = read(own).configuration
        let profile = "martlet_profile internet"
        for lines in ["\(own)\n\(profile)", "\(profile)\n\(own)", "\(profile)\nlistener 1\n\(own)", "include_dir d\n\(profile)"] {
            let result = read("allow_anonymous true\n" + lines, others: ["d/own.conf": own])
            #expect(result.texts == [])
            #expect(!option.differs(result.configuration, alone), "\(lines)")
            for other in ConfigurationProfile.internet.lines where other.name != name {
                let set = try #require(ConfigurationOption.named(other.name))
                #expect(!set.differs(result.configuration, read("\(other.name) \(other.value)").configuration), "\(other.name)")
            }
        }
    }

    @Test func `a profile wins over the defaults of an older mosquitto`() {
        let limits = read("martlet_compat 2.0\nmartlet_profile internet").configuration.limits
        #expect(limits.packet.bytesMax == 262_144)
        #expect(limits.keepAliveSecondsMax == 1200)
    }

    @Test(arguments: ["Internet", "lan", "internets"])
    func `an unknown profile is refused with the names of those that there are`(_ name: String) {
        #expect(
            read("martlet_profile \(name)").texts
                == [#"Error: m.conf:1: martlet_profile: found "\#(name)", expected internet."#])
    }

    @Test func `the example file says what a profile sets`() {
        for line in ConfigurationProfile.internet.lines {
            #expect(ConfigurationTemplate.text.contains("#     \(line.name) \(line.value)\n"), "\(line.name)")
        }
    }
}
