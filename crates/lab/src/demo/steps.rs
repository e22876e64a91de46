//! The next steps that the demo prints. A test runs these commands unchanged.

use super::folder::DemoFolder;
use crate::product::SimulatorAccess;

/// The URL where users watch the servers.
pub(crate) fn page(simulator: &SimulatorAccess) -> String {
    format!(
        "Watch the servers of the simulated hosting API: {}/_simulator/",
        simulator.control
    )
}

/// Where the metrics are shown, or how to get there.
pub(crate) fn graphs(prometheus: Option<&str>) -> String {
    match prometheus {
        Some(url) => format!("Prometheus with the metrics and alerts of the operator: {url}/graph"),
        None => "No Prometheus on PATH. With it (Debian: apt-get install prometheus), make demo-down and make demo \
            start the demo with metrics and alerts."
            .to_owned(),
    }
}

/// Commands for the root of the checkout.
pub(crate) fn next(folder: &DemoFolder) -> String {
    let (env, folder) = (folder.env(), folder.path());
    let (env, folder) = (short(&env), short(folder));
    format!(
        r#"Next steps, in this folder:

  . {env}                              # sets kubectl, namespace demo, URL of the simulator
  kubectl flexmetal status                 # problems first, then what changes, then what is ready
  kubectl flexmetal plan -f examples/servers/alternatives.yaml  # what applying it would send; exit 3: something
  kubectl flexmetal explain web            # the life of one object
  kubectl get flexmetal                    # objects of every kind
  kubectl describe bms web                 # conditions and events of one
  kubectl explain bms.spec                 # description of every field
  kubectl delete bms batch                 # returns when its server is released

A typo: nothing is ordered, and the status lists the valid names. The patch corrects it.

  kubectl apply -f examples/mishaps/typo.yaml
  kubectl wait bms/misspelt --for=condition=Stalled --timeout=60s
  kubectl describe bms misspelt
  kubectl patch bms misspelt --type=merge -p '{{"spec":{{"instanceType":"bm7.std.8"}}}}'
  kubectl wait bms/misspelt --for=condition=Ready --timeout=60s
  kubectl delete bms misspelt

A lost answer: the server is ordered, but the answer never arrives. The operator finds it and does not order again.

  curl -s "$SIMULATOR/_simulator/faults" -d '{{"match":{{"method":"POST","path":"/v3/flexMetal/servers"}},"fault":"dropAfter","count":1}}'
  kubectl apply -f examples/mishaps/lost-answer.yaml
  kubectl wait bms/lost-answer --for=condition=Ready --timeout=60s
  kubectl events --for bms/lost-answer
  kubectl delete bms lost-answer

No stock: the object waits, and its server is ordered as soon as there is stock.

  curl -s "$SIMULATOR/_simulator/availability" -d '{{"location":"JP: Tokyo","instanceType":"bm8.std.32","stock":0}}'
  kubectl apply -f examples/mishaps/sold-out.yaml
  kubectl wait bms/sold-out --for=jsonpath='{{.status.conditions[?(@.type=="Ready")].reason}}'=NoStock --timeout=120s
  kubectl describe bms sold-out
  curl -s "$SIMULATOR/_simulator/availability" -d '{{"location":"JP: Tokyo","instanceType":"bm8.std.32","stock":null}}'
  kubectl wait bms/sold-out --for=condition=Ready --timeout=120s
  kubectl delete bms sold-out

Tasks for a first day, in the same shell: docs/tasks/README.md

Finally:

  tail -f {folder}/logs/flexmetal-operator.log
  make demo                                # uses this demo again, and restores deleted objects
  make demo-down                           # ends the demo and removes {folder}"#
    )
}

/// A path relative to the current folder, if possible.
fn short(path: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let shown = path.strip_prefix(&here).unwrap_or(path);
    shown.display().to_string()
}
