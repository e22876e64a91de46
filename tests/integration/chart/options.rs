//! What the values change in the objects, without a cluster.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    checkout,
    helm::{IMAGE, documents, helm_4, said},
    of_kind,
    render::strings,
};

fn ci_file(name: &str) -> PathBuf {
    checkout(&format!("deploy/chart/ci/{name}-values.yaml"))
}

/// The objects of a values file.
fn render_file(name: &str) -> Vec<Value> {
    helm_4().template(&ci_file(name), "metal-system")
}

/// The objects with more flags. The error is Helm's output.
fn render_with(flags: &[&str]) -> Result<Vec<Value>, String> {
    let chart = checkout("deploy/chart");
    let template = ["template", "trial", chart.to_str().unwrap(), IMAGE];
    let cluster = ["--namespace=metal-system", "--kube-version=1.36.0"];
    let output = helm_4().run(&[&template[..], &cluster, flags].concat());
    match output.status.success() {
        true => Ok(documents(&String::from_utf8(output.stdout).unwrap())),
        false => Err(said(&output)),
    }
}

/// The operator's Deployment.
fn deployment(objects: &[Value]) -> &Value {
    let mut all = of_kind(objects, "Deployment");
    let labels = |object: &Value| object["spec"]["template"]["metadata"]["labels"].clone();
    all.find(|object| labels(object)["app.kubernetes.io/component"] == "operator")
        .unwrap()
}

fn pod(objects: &[Value]) -> &Value {
    &deployment(objects)["spec"]["template"]["spec"]
}

/// The operator's NetworkPolicy.
fn network_policy(objects: &[Value]) -> &Value {
    let mut all = of_kind(objects, "NetworkPolicy");
    all.find(|it| it["metadata"]["name"] == "trial-flexmetal-operator")
        .unwrap()
}

/// Ports of a rule with their protocols.
fn ports(rule: &Value) -> Vec<String> {
    let ports = rule["ports"].as_array().into_iter().flatten();
    ports
        .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap()))
        .collect()
}

#[test]
fn network_policy_names_peers_and_ports() {
    let objects = render_file("network-policy");
    let spec = &network_policy(&objects)["spec"];
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    let labels = &deployment(&objects)["spec"]["template"]["metadata"]["labels"];
    for (key, value) in spec["podSelector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(labels[key], *value, "{key}");
    }
    let ingress = spec["ingress"].as_array().unwrap();
    assert_eq!(ports(&ingress[0]), ["8080/TCP"]);
    assert!(ingress[0]["from"][0]["namespaceSelector"].is_object());
    assert_eq!(ingress.len(), 2);
    let egress = spec["egress"].as_array().unwrap();
    let found: Vec<Vec<String>> = egress.iter().map(ports).collect();
    // The base URLs have ports 443 and 8080, the proxy 3128.
    let provider: &[&str] = &["443/TCP", "8080/TCP", "3128/TCP"];
    let expected: [&[&str]; 4] = [&["53/UDP", "53/TCP"], &["6443/TCP"], provider, &[]];
    assert_eq!(found, expected);
    assert!(
        egress.iter().all(|rule| rule["to"].is_array()),
        "{egress:?}"
    );
}

#[test]
fn network_policy_defaults_let_operator_work() {
    assert_eq!(of_kind(&render_file("default"), "NetworkPolicy").count(), 0);
    let objects = render_file("extras");
    let spec = &network_policy(&objects)["spec"];
    // Without metrics nobody calls the operator.
    assert_eq!(spec["ingress"], json!([]));
    let egress = spec["egress"].as_array().unwrap();
    let found: Vec<Vec<String>> = egress.iter().map(ports).collect();
    let expected: [&[&str]; 3] = [
        &["53/UDP", "53/TCP"],
        &["443/TCP", "6443/TCP"],
        &["443/TCP"],
    ];
    assert_eq!(found, expected);
    assert!(egress.iter().all(|rule| rule.get("to").is_none()));

    // The operator reaches the simulator, at the port of its pod.
    let objects = render_file("simulator");
    let egress = network_policy(&objects)["spec"]["egress"]
        .as_array()
        .unwrap();
    let rule = egress.last().unwrap();
    let simulator = of_kind(&objects, "NetworkPolicy").find(|it| {
        let selected = &it["spec"]["podSelector"]["matchLabels"];
        *selected == rule["to"][0]["podSelector"]["matchLabels"]
    });
    let ingress = &simulator.unwrap()["spec"]["ingress"][0];
    assert_eq!(ports(rule), ports(ingress));
    let port = &ingress["ports"][0]["port"];
    let served = of_kind(&objects, "Deployment").any(|it| {
        let container = &it["spec"]["template"]["spec"]["containers"][0];
        container["ports"][0]["containerPort"] == *port
    });
    assert!(served, "{port}");
}

#[test]
fn only_replicated_operator_has_disruption_budget() {
    let budgets = |flags: &[&str]| {
        let objects = render_with(flags).unwrap();
        let budgets = of_kind(&objects, "PodDisruptionBudget");
        budgets
            .map(|it| it["spec"]["maxUnavailable"].clone())
            .collect::<Vec<_>>()
    };
    assert!(budgets(&[]).is_empty());
    assert_eq!(budgets(&["--set=replicas=2"]), [1]);
    let off = "--set=podDisruptionBudget.enabled=false";
    assert!(budgets(&["--set=replicas=2", off]).is_empty());
}

#[test]
fn replicas_are_spread_over_nodes() {
    let spread = |flags: &[&str]| {
        let objects = render_with(flags).unwrap();
        pod(&objects)["topologySpreadConstraints"].clone()
    };
    assert!(spread(&[]).is_null());
    let by_default = spread(&["--set=replicas=2"]);
    assert_eq!(by_default[0]["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(by_default[0]["whenUnsatisfiable"], "ScheduleAnyway");
    let own = "--set=topologySpreadConstraints[0].labelSelector.matchLabels.a=b";
    let selector = json!({"matchLabels": {"a": "b"}});
    assert_eq!(spread(&[own])[0]["labelSelector"], selector);

    let preset = checkout("deploy/chart/values-ha.yaml");
    let preset = format!("--values={}", preset.display());
    let objects = render_with(&[&preset]).unwrap();
    assert_eq!(deployment(&objects)["spec"]["replicas"], 2);
    let spread = pod(&objects)["topologySpreadConstraints"]
        .as_array()
        .unwrap();
    let selector = &deployment(&objects)["spec"]["selector"];
    assert_eq!(spread.len(), 2);
    for constraint in spread {
        assert_eq!(constraint["labelSelector"], *selector);
    }
}

#[test]
fn namespaced_preset_grants_no_cluster_wide_secrets() {
    let preset = checkout("deploy/chart/values-namespaced.yaml");
    let preset = format!("--values={}", preset.display());
    let objects = render_with(&[&preset, "--set=watchNamespaces={blue,green}"]).unwrap();
    let reads_secrets = |role: &&Value| {
        let rules = role["rules"].as_array().unwrap().iter();
        let mut resources = rules.flat_map(|rule| strings(&rule["resources"]));
        resources.any(|resource| resource == "secrets")
    };
    let cluster = of_kind(&objects, "ClusterRole").filter(reads_secrets);
    assert_eq!(cluster.count(), 0);
    let roles = of_kind(&objects, "Role").filter(reads_secrets);
    let namespaces: Vec<&Value> = roles.map(|role| &role["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, ["blue", "green"]);
}

#[test]
fn global_values_reach_every_pod_and_object() {
    let objects = render_file("extras");
    let mirror = "mirror.example.com:5000/prefix";
    let doctor = of_kind(&objects, "Pod").next().unwrap();
    for (pod, program) in [
        (pod(&objects), "flexmetal-operator"),
        (&doctor["spec"], "kubectl-flexmetal"),
    ] {
        let image = format!("{mirror}/{program}:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(pod["containers"][0]["image"], image);
        let secrets = json!([{"name": "registry"}, {"name": "mirror"}]);
        assert_eq!(pod["imagePullSecrets"], secrets);
    }
    let mut labelled = 0;
    for object in &objects {
        // The objects of the values have the labels that the values give them.
        if object["metadata"]["name"] == "ca" {
            continue;
        }
        let template = &object["spec"]["template"]["metadata"];
        for metadata in [&object["metadata"], template] {
            if metadata.is_object() {
                assert_eq!(metadata["labels"]["team"], "platform", "{metadata}");
                assert_eq!(metadata["labels"]["cost-centre"], "4711", "{metadata}");
                labelled += 1;
            }
        }
    }
    assert!(labelled > 30, "{labelled}");
    let selector = deployment(&objects)["spec"]["selector"].to_string();
    assert!(!selector.contains("team"), "{selector}");
    // A label of the chart has precedence.
    let own = "--set=commonLabels.app\\.kubernetes\\.io/component=x,simulator.enabled=true";
    let image = "--set=simulator.image.repository=flexmetal-simulator";
    let objects = render_with(&[own, image]).unwrap();
    let labels = &deployment(&objects)["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/component"], "operator");
}

#[test]
fn extra_values_reach_the_pod() {
    let objects = render_file("extras");
    let pod = pod(&objects);
    let container = &pod["containers"][0];
    assert!(strings(&container["args"]).contains(&"--read-only".to_owned()));
    assert_eq!(container["envFrom"][0]["configMapRef"]["name"], "settings");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/ca");
    assert_eq!(pod["volumes"][0]["name"], "ca");
    assert_eq!(pod["containers"][1]["name"], "sidecar");
    assert_eq!(pod["terminationGracePeriodSeconds"], 300);
    assert_eq!(pod["runtimeClassName"], "gvisor");
    assert_eq!(pod["dnsPolicy"], "None");
    assert_eq!(pod["dnsConfig"], json!({"nameservers": ["10.96.0.10"]}));
    let maps: Vec<&Value> = of_kind(&objects, "ConfigMap")
        .map(|it| &it["metadata"])
        .collect();
    let find = |name: &str| maps.iter().find(|metadata| metadata["name"] == name);
    for name in ["ca", "trial-flexmetal-operator-text"] {
        let metadata = find(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(metadata["namespace"], "metal-system");
        let instance = &metadata["labels"]["app.kubernetes.io/instance"];
        assert_eq!(instance, "trial");
    }
}

#[test]
fn helm_test_runs_the_doctor_for_release() {
    let is_hook = |object: &&Value| !object["metadata"]["annotations"]["helm.sh/hook"].is_null();
    assert_eq!(render_file("default").iter().filter(is_hook).count(), 0);
    let objects = render_file("extras");
    let hooks: Vec<&Value> = objects.iter().filter(is_hook).collect();
    assert_eq!(hooks.len(), 6, "{hooks:?}");
    for hook in &hooks {
        let annotations = &hook["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "test");
        // The pod stays, so that its log can be read.
        let policy = annotations["helm.sh/hook-delete-policy"].as_str().unwrap();
        let is_pod = hook["kind"] == "Pod";
        assert_eq!(policy.contains("hook-succeeded"), !is_pod, "{policy}");
    }
    let pod = of_kind(&objects, "Pod").next().unwrap();
    let arguments = strings(&pod["spec"]["containers"][0]["args"]);
    let expected = [
        "doctor",
        "--all-namespaces",
        "--operator-namespace=metal-system",
    ];
    assert_eq!(arguments, expected);
    // The doctor changes nothing.
    for kind in ["Role", "ClusterRole"] {
        let roles = of_kind(&objects, kind).filter(is_hook);
        for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
            let is_review = strings(&rule["resources"]) == ["subjectaccessreviews"];
            let verbs = strings(&rule["verbs"]);
            let reads = verbs
                .iter()
                .all(|verb| ["get", "list"].contains(&verb.as_str()));
            assert!(reads || is_review, "{rule}");
        }
    }
}

#[test]
fn simulator_account_is_created_on_demand() {
    let accounts = |flags: &[&str]| {
        let image = "--set=simulator.image.repository=flexmetal-simulator";
        let on = ["--set=simulator.enabled=true", image];
        let objects = render_with(&[&on[..], flags].concat())?;
        let secret = of_kind(&objects, "Secret").next().unwrap();
        let accounts = of_kind(&objects, "ProviderAccount");
        let secrets = accounts.map(|it| it["spec"]["apiKeySecretRef"].clone());
        let name = json!({"name": secret["metadata"]["name"]});
        Ok::<_, String>((secrets.collect::<Vec<_>>(), name))
    };
    assert!(accounts(&[]).unwrap().0.is_empty());
    let create = "--set=simulator.createAccount=true";
    let (found, secret) = accounts(&[create]).unwrap();
    assert_eq!(found, [secret]);
    let elsewhere = accounts(&[create, "--set=watchNamespaces={blue}"]);
    let words = elsewhere.unwrap_err();
    assert!(words.contains("does not watch metal-system"), "{words}");
}
